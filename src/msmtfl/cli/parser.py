"""What the parser of the command knows of itself: for completion in shells, and for the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Option:
    """An option or an argument of a command."""

    names: tuple[str, ...]
    value: str  # what stands after it; "" of a flag
    default: str
    help: str


@dataclass(frozen=True)
class Command:
    """A command: what it does, its arguments and options, its examples."""

    name: str
    help: str
    arguments: tuple[Option, ...]
    options: tuple[Option, ...]
    examples: str


def commands(app: Any) -> list[Command]:
    """All commands, in the order of the help."""
    import typer

    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="msmtfl")
    return [_command(name, group.get_command(context, name)) for name in group.list_commands(context)]


def _command(name: str, found: Any) -> Command:
    arguments = [one for one in found.params if one.param_type_name == "argument"]
    options = [one for one in found.params if one.param_type_name == "option"]
    epilog = (found.epilog or "").replace("\b\n", "")
    lines = epilog.split("\n", 1)[1] if "\n" in epilog else ""
    return Command(
        name,
        " ".join((found.help or "").split()),
        tuple(_option(one) for one in arguments),
        tuple(_option(one) for one in options),
        "\n".join(line.removeprefix("  ") for line in lines.splitlines()),
    )


def _option(found: Any) -> Option:
    if found.param_type_name == "argument":
        names: tuple[str, ...] = (str(found.metavar or found.name.upper()),)
        return Option(names, "", "", str(getattr(found, "help", None) or ""))
    names = (*found.opts, *found.secondary_opts)
    flag = bool(found.is_flag)
    default = "" if found.default in (None, False, ()) or flag or callable(found.default) else str(found.default)
    value = "" if flag else str(found.metavar or found.name.split("_")[-1]).upper()
    return Option(names, value, "required" if found.required else default, str(found.help or ""))


# ------------------------------------------------------------------ shells


def completion_script(app: Any, shell: str) -> str:
    """What a shell reads to complete the commands and options of `msmtfl`; names of files everywhere else."""
    found = commands(app)
    if shell == "fish":
        return _fish(found)
    bash = _bash(found)
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _bash(found: list[Command]) -> str:
    cases = "\n".join(
        f'    {one.name}) words="{" ".join(name for option in one.options for name in option.names)}" ;;'
        for one in found
    )
    names = " ".join([*(one.name for one in found), "--help", "--version"])
    return f"""_msmtfl() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{names}" -- "$current"))
  elif [ "${{current#-}}" != "$current" ]; then
    COMPREPLY=($(compgen -W "$words --help" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _msmtfl msmtfl
"""


def _fish(found: list[Command]) -> str:
    lines = []
    for one in found:
        lines.append(f"complete -c msmtfl -n __fish_use_subcommand -f -a {one.name} -d {_quoted(one.help)}")
        for option in one.options:
            where = f"-n '__fish_seen_subcommand_from {one.name}'"
            takes = " -r" if option.value else ""
            for name in option.names:
                kind = "-l" if name.startswith("--") else "-s"
                lines.append(f"complete -c msmtfl {where} {kind} {name.lstrip('-')}{takes} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    first = text.split(". ")[0].rstrip(".")
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ------------------------------------------------------------------ reference


def reference(app: Any) -> str:
    """The page of all commands, in Markdown."""
    parts = [
        "# Commands",
        "",
        "What `msmtfl COMMAND --help` says, on one page. It is made from the code (`python docs/commands.py`). "
        "`msmtfl completion bash` (or zsh, fish) makes the shell complete commands and options.",
        "",
    ]
    for one in commands(app):
        usage = " ".join(["msmtfl", one.name, *(argument.names[0] for argument in one.arguments), "[OPTIONS]"])
        parts += [f"## msmtfl {one.name}", "", one.help, "", "```", usage, "```", ""]
        lines = [_line(argument) for argument in one.arguments] + [_line(option) for option in one.options]
        parts += ["| argument or option | default | what it does |", "|---|---|---|", *lines, ""] if lines else []
        if one.examples:
            parts += ["```bash", one.examples, "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _line(option: Option) -> str:
    value = f" {option.value}" if option.value else ""
    names = ", ".join(f"`{name}{value}`" for name in option.names)
    escaped = option.help.replace("|", r"\|").replace("<", r"\<").replace("*", r"\*").replace("[", r"\[")
    return f"| {names} | {option.default} | {escaped} |"
