"""Tables of text and numbers as documents: LaTeX, HTML, Markdown, CSV, Word and Excel. The standard library is enough: a
.docx or .xlsx file is a zip archive of a few small XML files.

A table is its header and its lines; an entry is a text or a number. `significant` makes a text of a number for those who
read; CSV and Excel have the numbers themselves, None where there is none.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .printable import printable

Entry = str | float | None
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "＝",
    "＋",
    "－",
    "＠",
)  # how an entry of CSV begins that spreadsheets run
SIGNED = re.compile(r"[+-](\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]inf", re.ASCII)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NUMBER = re.compile(r"[-\d.e, \[\]]+")  # an entry that is nothing but numbers: an estimate, perhaps with an interval
MINUS = "\N{MINUS SIGN}"
TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "–": "--",
    "×": r"$\times$",
    "±": r"$\pm$",
}
EPOCH = (1980, 1, 1, 0, 0, 0)  # of the members of archives: the same table is the same file


@dataclass(frozen=True)
class Sheet:
    """A table with a caption. `lines` hold numbers and texts, `shown` the same in words; `notes` stand below."""

    header: tuple[str, ...]
    lines: tuple[tuple[Entry, ...], ...]
    shown: tuple[tuple[str, ...], ...]
    caption: str
    notes: tuple[str, ...] = ()
    names: int = 1  # so many columns are names, set to the left; the others to the right
    exact: tuple[str, ...] = field(default=())  # header of `lines`, if it is another


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits; those before the decimal point all stand."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0.0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    size = math.floor(math.log10(abs(rounded)))
    if -5 < size < 7:
        return f"{value:.{max(0, digits - 1 - size)}f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


# ------------------------------------------------------------------ text


def as_csv(sheet: Sheet) -> str:
    """The numbers with all their digits, without caption; text that a spreadsheet would run gets an apostrophe."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow([inert(name) for name in sheet.exact or sheet.header])
    for line in sheet.lines:
        write.writerow([inert(one) if isinstance(one, str) else "" if one is None else repr(one) for one in line])
    return out.getvalue()


def inert(text: str) -> str:
    """With an apostrophe in front if a spreadsheet would take it for a formula, which a number is not."""
    return f"'{text}" if text.startswith(FORMULA) and not SIGNED.fullmatch(text) else text


def as_text(sheet: Sheet) -> str:
    """For a terminal: columns set under each other."""
    rows = [[printable(one) for one in line] for line in (sheet.header, *sheet.shown)]
    widths = [max(len(line[k]) for line in rows) for k in range(len(sheet.header))]

    def line(entries: Sequence[str]) -> str:
        set_ = [
            one.ljust(w) if k < sheet.names else one.rjust(w)
            for k, (one, w) in enumerate(zip(entries, widths, strict=True))
        ]
        return "  ".join(set_).rstrip()

    return "\n".join([sheet.caption, "", *(line(one) for one in rows), "", *sheet.notes])


def as_markdown(sheet: Sheet) -> str:
    def line(entries: Sequence[str]) -> str:
        return "| " + " | ".join(_in_markdown(one) for one in entries) + " |"

    rule = [":--"] * sheet.names + ["--:"] * (len(sheet.header) - sheet.names)
    rows = [line(sheet.header), "| " + " | ".join(rule) + " |", *(line(one) for one in sheet.shown)]
    notes = [f"\n{_in_markdown(note)}" for note in sheet.notes]
    return "\n".join([f"**{_in_markdown(sheet.caption)}**", "", *rows, *notes]) + "\n"


def _in_markdown(text: str) -> str:
    return in_markdown(printable(text))


def in_markdown(text: str) -> str:
    """Text that Markdown shows as it is: neither its own marks nor HTML have a meaning."""
    return re.sub(r"([\\`*_{}\[\]|~$#])", r"\\\1", html.escape(text, quote=False))


def as_html(sheet: Sheet, whole: bool = True) -> str:
    """A page, or the table alone."""

    def line(tag: str, entries: Sequence[str]) -> str:
        cells = [
            f'<{tag} style="text-align:{"left" if k < sheet.names else "right"};padding:2px 8px">{_in_html(one)}</{tag}>'
            for k, one in enumerate(entries)
        ]
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(line("td", one) for one in sheet.shown)
    notes = "".join(f'<p style="font-size:small;max-width:60em">{_in_html(note)}</p>\n' for note in sheet.notes)
    table = (
        '<table style="border-collapse:collapse;border-top:1px solid;border-bottom:1px solid">\n'
        f'<caption style="text-align:left;max-width:60em">{_in_html(sheet.caption)}</caption>\n'
        f'<thead style="border-bottom:1px solid">{line("th", sheet.header)}</thead>\n<tbody>\n{body}\n</tbody></table>\n'
        f"{notes}"
    )
    if not whole:
        return table
    head = f'<meta charset="utf-8"><title>{_in_html(sheet.caption)}</title>'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body style="font-family:serif">\n{table}</body></html>\n'
    )


def _in_html(text: str) -> str:
    return html.escape(_typeset(printable(text)))


def _typeset(text: str) -> str:
    """With signs of minus in front of numbers, and powers of ten."""
    text = (
        re.sub(r"(?<=\d)e(-?\d+)\b", lambda n: f" × 10{n[1].translate(RAISED)}", text)
        if NUMBER.fullmatch(text)
        else text
    )
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def as_latex(sheet: Sheet, label: str = "tab:coefficients") -> str:
    """A table for \\input in a document with the package booktabs; longtable beyond what a page holds."""
    columns = "l" * sheet.names + "r" * (len(sheet.header) - sheet.names)
    head = " & ".join(_in_latex(name) for name in sheet.header) + r" \\"
    body = [" & ".join(_in_latex(one) for one in line) + r" \\" for line in sheet.shown]
    notes = [f"\\par\\smallskip\\footnotesize {_in_latex(note)}" for note in sheet.notes]
    caption = f"\\caption{{{_in_latex(sheet.caption)}}}\\label{{{label}}}"
    needs = "% needs \\usepackage{booktabs}" + (" and \\usepackage{longtable}" if len(body) > 45 else "")
    if len(body) > 45:
        lines = [
            f"\\begin{{longtable}}{{{columns}}}",
            caption + r" \\",
            r"\toprule",
            head,
            r"\midrule",
            r"\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
            *notes,
        ]
    else:
        lines = [
            r"\begin{table}",
            r"\centering",
            caption,
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
    return "\n".join([needs, *lines]) + "\n"


NUMBERS = re.compile(r"(?<![\w.\\-])(-?\d+(?:\.\d+)?)(?:e(-?\d+))?(?![\w.])")


def _in_latex(text: str) -> str:
    """Text with its special characters escaped; an entry that is nothing but numbers is set as such."""
    text = printable(text)
    if text in ("+", "-"):
        return f"${text}$"
    if NUMBER.fullmatch(text) and NUMBERS.search(text):
        return NUMBERS.sub(_set_number, text)
    return in_latex(text)


def in_latex(text: str) -> str:
    """Text with its special characters escaped."""
    return "".join(TEX.get(one, one) for one in text)


def _set_number(found: re.Match[str]) -> str:
    power = "" if found[2] is None else rf" \times 10^{{{found[2]}}}"
    return f"${found[1]}{power}$"


# ------------------------------------------------------------------ archives


def _zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content.encode(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _in_xml(text: str) -> str:
    return html.escape(printable(text), quote=True)


XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument"
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _package(parts: dict[str, str], main: str) -> dict[str, str]:
    """What every document of Office begins with: the types of its parts ({path: type}), and which is the main one."""
    types = "".join(f'<Override PartName="/{path}" ContentType="{TYPES}.{kind}+xml"/>' for path, kind in parts.items())
    kinds = (
        f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{types}'
    )
    return {
        "[Content_Types].xml": f'{XML}<Types xmlns="{PACKAGE}/content-types">{kinds}</Types>',
        "_rels/.rels": _links({"rId1": ("officeDocument", main)}),
    }


def _links(targets: dict[str, tuple[str, str]]) -> str:
    found = "".join(
        f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target="{path}"/>' for key, (kind, path) in targets.items()
    )
    return f'{XML}<Relationships xmlns="{PACKAGE}/relationships">{found}</Relationships>'


def as_docx(sheet: Sheet) -> bytes:
    """A Word document with the caption, a table ruled as in journals, and the notes; wide tables lie across the page."""

    def paragraph(text: str, *, right: bool = False, bold: bool = False, size: int = 20) -> str:
        look = f'<w:rPr>{"<w:b/>" if bold else ""}<w:sz w:val="{size}"/></w:rPr>'
        place = f'<w:pPr><w:spacing w:before="20" w:after="20"/><w:jc w:val="{"right" if right else "left"}"/></w:pPr>'
        run = f'<w:r>{look}<w:t xml:space="preserve">{_in_xml(_typeset(text))}</w:t></w:r>'
        return f"<w:p>{place}{run}</w:p>"

    small = 20 if len(sheet.header) <= 8 else 14

    def row(entries: Sequence[str], heads: bool = False) -> str:
        rule = '<w:tcBorders><w:bottom w:val="single" w:sz="6"/></w:tcBorders>' if heads else ""
        cells = "".join(
            f"<w:tc><w:tcPr>{rule}</w:tcPr>{paragraph(one, right=k >= sheet.names, bold=heads, size=small)}</w:tc>"
            for k, one in enumerate(entries)
        )
        return f"<w:tr>{'<w:trPr><w:tblHeader/></w:trPr>' if heads else ''}{cells}</w:tr>"

    rules = '<w:tblBorders><w:top w:val="single" w:sz="8"/><w:bottom w:val="single" w:sz="8"/></w:tblBorders>'
    grid = "".join("<w:gridCol/>" for _ in sheet.header)
    table = (
        f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/>{rules}</w:tblPr><w:tblGrid>{grid}</w:tblGrid>'
        f"{row(sheet.header, True)}{''.join(row(line) for line in sheet.shown)}</w:tbl>"
    )
    long, short = 16838, 11906  # A4, in twentieths of a point
    turned = len(sheet.header) > 8
    size = f'w:w="{long}" w:h="{short}" w:orient="landscape"' if turned else f'w:w="{short}" w:h="{long}"'
    sides = " ".join(f'w:{side}="1134"' for side in ("top", "right", "bottom", "left"))
    margins = f'<w:pgMar {sides} w:header="708" w:footer="708" w:gutter="0"/>'
    notes = "".join(paragraph(note, size=16) for note in sheet.notes)
    body = f"{paragraph(sheet.caption)}{table}{notes}<w:sectPr><w:pgSz {size}/>{margins}</w:sectPr>"
    document = f'{XML}<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>'
    main = "word/document.xml"
    return _zipped(_package({main: "wordprocessingml.document.main"}, main) | {main: document})


def as_xlsx(sheet: Sheet) -> bytes:
    """An Excel workbook of two sheets: the numbers with all their digits, and the caption with the notes."""
    header = sheet.exact or sheet.header
    table = [_excel_row(1, header, style=1), *(_excel_row(r, line) for r, line in enumerate(sheet.lines, 2))]
    about = [_excel_row(r, (text,)) for r, text in enumerate((sheet.caption, *sheet.notes), 1)]
    pane = '<pane ySplit="1" topLeftCell="A2" state="frozen"/>'
    frozen = f'<sheetViews><sheetView workbookViewId="0">{pane}</sheetView></sheetViews>'
    names = {"xl/worksheets/sheet1.xml": "table", "xl/worksheets/sheet2.xml": "about"}
    sheets = "".join(f'<sheet name="{name}" sheetId="{k}" r:id="rId{k}"/>' for k, name in enumerate(names.values(), 1))
    fonts = '<fonts count="2"><font><sz val="11"/></font><font><b/><sz val="11"/></font></fonts>'
    patterns = "".join(f'<fill><patternFill patternType="{kind}"/></fill>' for kind in ("none", "gray125"))
    fills = f'<fills count="2">{patterns}</fills>'
    borders = '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    basic = '<xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>'
    bold = '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>'
    first = '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    normal = '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
    looks = f'<cellStyleXfs count="1">{basic}</cellStyleXfs><cellXfs count="2">{first}{bold}</cellXfs>{normal}'
    main, styles = "xl/workbook.xml", "xl/styles.xml"
    kinds = {main: "spreadsheetml.sheet.main", styles: "spreadsheetml.styles"}
    kinds |= dict.fromkeys(names, "spreadsheetml.worksheet")
    links = {f"rId{k}": ("worksheet", path.removeprefix("xl/")) for k, path in enumerate(names, 1)}
    links[f"rId{len(names) + 1}"] = ("styles", "styles.xml")
    return _zipped(
        _package(kinds, main)
        | {
            main: f'{XML}<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}"><sheets>{sheets}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _links(links),
            styles: f'{XML}<styleSheet xmlns="{SHEETS}">{fonts}{fills}{borders}{looks}</styleSheet>',
            "xl/worksheets/sheet1.xml": _worksheet(frozen, table),
            "xl/worksheets/sheet2.xml": _worksheet("", about),
        }
    )


def _worksheet(view: str, rows: Sequence[str]) -> str:
    return f'{XML}<worksheet xmlns="{SHEETS}">{view}<sheetData>{"".join(rows)}</sheetData></worksheet>'


def _excel_row(number: int, entries: Sequence[Any], style: int = 0) -> str:
    def cell(k: int, one: Entry) -> str:
        place = f'r="{_column(k)}{number}" s="{style}"'
        if one is None or (isinstance(one, float) and not math.isfinite(one)):
            return "" if one is None or math.isnan(one) else f'<c {place} t="inlineStr"><is><t>{one}</t></is></c>'
        if isinstance(one, str):
            return f'<c {place} t="inlineStr"><is><t xml:space="preserve">{_in_xml(one)}</t></is></c>'
        return f"<c {place}><v>{one!r}</v></c>"

    return f'<row r="{number}">{"".join(cell(k, one) for k, one in enumerate(entries))}</row>'


def _column(k: int) -> str:
    """A, B, ..., Z, AA, ..."""
    text = ""
    k += 1
    while k:
        k, rest = divmod(k - 1, 26)
        text = chr(65 + rest) + text
    return text


WRITERS: dict[str, Callable[[Sheet], str | bytes]] = {
    ".csv": as_csv,
    ".docx": as_docx,
    ".html": as_html,
    ".md": as_markdown,
    ".tex": as_latex,
    ".xlsx": as_xlsx,
}
