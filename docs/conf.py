"""How the site is built: `make docs`. Nothing is fetched from the network, neither by the build nor by the pages."""

import os
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
import elsewhere  # noqa: E402  found in _ext

mpl.use("Agg")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "msmtfl"
author = "The msmtfl developers"
version = release = (HERE.parent / "src" / "msmtfl" / "VERSION").read_text(encoding="utf-8").strip()
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",  # this and the next two: in _ext
    "made_pages",
    "source_pages",
]
exclude_patterns = ["_build", "_ext"]
templates_path = ["_templates"]
nitpicky = True
default_role = "literal"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # sphinx-gallery's own settings

# what scikit-learn's own base classes bring is documented there
SCIKIT_LEARN = "BaseEstimator,RegressorMixin,ClassifierMixin,CallbackSupportMixin,_MetadataRequester,object"
autodoc_default_options = {"members": True, "inherited-members": SCIKIT_LEARN}
autodoc_typehints = "none"  # types of parameters are in the text
autosummary_generate = True
napoleon_use_param = napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

intersphinx_mapping = elsewhere.inventories(HERE / "_build" / "inventories")

ARCHIVES = {
    "hiv_resistance": "hiv_pi",
    "schools": "school",
    "isolet": "isolet",
}  # of stories whose data are not shipped
DATA = Path(os.environ.get("MSMTFL_DATA", ""))
WITHOUT_DATA = [story for story, name in ARCHIVES.items() if not (DATA / f"{name}.npz").is_file()]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": rf"/plot_(?!{'|'.join(WITHOUT_DATA) or '$'})",  # the others are shown, not run
    "ignore_pattern": r"stored_data\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "image_srcset": ["2x"],
    "plot_gallery": "True",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "msmtfl"
html_static_path = ["_static", str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf")]  # for formulas
html_context = {"default_mode": "auto"}
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_sidebars = {"**": ["pages"]}
html_theme_options = {
    "logo": {"text": "msmtfl"},
    "navbar_center": [],
    "navbar_persistent": ["search-button-field"],
    "navbar_end": ["version", "theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
