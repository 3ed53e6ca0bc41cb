"""The frame of all commands: a command is a function, its parameters are its options, its docstring is its purpose.

An option is what ``Annotated`` says beside the type: its help; the word for its value, if that is not PATH, N or NAME;
a `Section`; an `Option` for what is rare. One without help has that of its name in `recap.cli.options`. Parameters
before ``/`` are words without a name. ``spec`` becomes the settings whose class the decorator names. A mistake on the
command line is one sentence that names the nearest right word.
"""

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from recap.cli.options import SHARED, Option, Section
from recap.core.errors import nearest

METAVARS = {Path: "PATH", int: "N", str: "NAME"}  # where an option does not say what its value is


@dataclass(frozen=True)
class Command:
    """A function as a command; ``name`` is its word on the command line."""

    function: Callable[..., None]
    name: str
    examples: Sequence[str] = ()
    spec: str | None = None  # class in recap.settings.specs that checks --spec, and whose keys the page lists

    @property
    def purpose(self) -> str:
        """The docstring, as the list of commands shows it."""
        text = " ".join((self.function.__doc__ or "").split()).rstrip(".")
        return text[:1].lower() + text[1:]

    def add_to(self, commands: Any) -> None:
        """Add the parser of this command."""
        lines = "\n".join(textwrap.dedent(each).strip() for each in self.examples)
        parser: Parser = commands.add_parser(
            self.name,
            help=self.purpose,
            description=_sentence(self.purpose),
            epilog=f"example:\n{textwrap.indent(lines, '  ')}",
            fill=self._add_options,
        )
        parser.set_defaults(function=self.run)
        parser.spec_keys = self.spec

    def _add_options(self, parser: "Parser") -> None:
        """Add an option for each parameter of the function."""
        sections: dict[Section, Any] = {}
        for parameter in inspect.signature(self.function).parameters.values():
            option = _option(parameter)
            place: Any = parser
            if option.section is not None:
                place = sections.get(option.section) or _add_section(parser, option.section)
                sections[option.section] = place
            words, options = _words(parameter, option)
            place.add_argument(*words, **options)

    def run(self, arguments: argparse.Namespace) -> None:
        """Call the function with the values of the command line; a spec becomes the settings that it describes."""
        values = []
        keywords = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            value, option = getattr(arguments, name), _option(parameter)
            if name == "spec" and self.spec is not None and value is not None:
                value = checked(value, self.spec)
            if option.repeat:
                value = tuple(value)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                values.append(value)
            else:
                keywords[name] = value
        self.function(*values, **keywords)


def command(
    *examples: str, name: str | None = None, spec: str | None = None
) -> Callable[[Callable[..., None]], Command]:
    """Return the decorator that makes a function a command; ``examples`` are lines that work with other file names."""
    return lambda function: Command(function, name or function.__name__.strip("_").replace("_", "-"), examples, spec)


@dataclass(frozen=True)
class Group:
    """Commands below one word, which alone prints their help; a group without a purpose is on no help page."""

    name: str
    purpose: str
    commands: list[Command] = field(default_factory=list)

    def command(self, *examples: str, **options: str) -> Callable[[Callable[..., None]], Command]:
        """Return the decorator that adds a function as a command of this group; see `command`."""

        def add(function: Callable[..., None]) -> Command:
            self.commands.append(command(*examples, **options)(function))
            return self.commands[-1]

        return add

    def add_to(self, commands: Any) -> None:
        """Add the parser of this group."""
        shown = {"help": self.purpose, "description": _sentence(self.purpose)} if self.purpose else {}
        parser: Parser = commands.add_parser(self.name, **shown, fill=self._add_commands)
        parser.is_hidden = not self.purpose
        parser.set_defaults(function=lambda _: parser.print_help())

    def _add_commands(self, parser: "Parser") -> None:
        below = parser.add_subparsers(metavar="COMMAND", title="commands")
        for each in self.commands:
            each.add_to(below)


class Parser(argparse.ArgumentParser):
    """Parses the words of one command; ``spec_keys`` is the class that lists the keys of its ``--spec``.

    ``fill`` adds what it takes when it is first used: most commands of a start are not.
    """

    def __init__(self, *, fill: Callable[["Parser"], None] | None = None, **options: Any) -> None:
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._fill = fill
        self.spec_keys: str | None = None
        self.is_hidden = False
        self._below: Any = None

    def add_subparsers(self, **options: Any) -> Any:
        """Let commands be added, as `argparse.ArgumentParser.add_subparsers`."""
        self._below = super().add_subparsers(**options)
        return self._below

    @property
    def commands(self) -> dict[str, "Parser"]:
        """The commands below this one that are on its help page, by their names and in its order."""
        self._fill_once()
        choices = {} if self._below is None else self._below.choices
        return {name: parser for name, parser in choices.items() if not parser.is_hidden}

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse a misspelt word first: a misspelt option also leaves its right form missing, and explains both."""
        self._fill_once()
        words = sys.argv[1:] if args is None else args
        if self._below is None:
            self._refuse_unknown_option(words)
        else:
            self._refuse_unknown_command(words)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print one sentence and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` says more)\n")

    def format_help(self) -> str:
        """Return the help page; below it the keys of ``--spec``, from the class that checks them."""
        self._fill_once()
        page = super().format_help()
        if self.spec_keys is None:
            return page
        from recap.settings.specs import described

        return f"{page}\nkeys of --spec:\n{textwrap.indent(described(self.spec_keys), '  ')}\n"

    def _fill_once(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def _refuse_unknown_command(self, words: Sequence[str]) -> None:
        previous = ["", *words]  # an option of all commands has a value
        names = (
            word
            for word, last in zip(words, previous, strict=False)
            if not (word.startswith("-") or (last.startswith("--") and "=" not in last))
        )
        name = next(names, None)
        if name is not None and name not in self._below.choices:
            self.error(f"command {name!r} is unknown; {nearest(name, self.commands)}")

    def _refuse_unknown_option(self, words: Iterable[str]) -> None:
        options = re.findall(r"--[\w-]+", self.format_usage()) + ["--help"]
        for word in words:
            name = word.partition("=")[0]
            if name == "--":
                return
            # A word with a space is a value; the prefix of an option is accepted for it.
            if name.startswith("--") and " " not in name and not any(option.startswith(name) for option in options):
                self.error(f"there is no option {name}; {nearest(name, options)}")


def checked(value: dict[str, Any], spec: str) -> Any:
    """Return a JSON object as the class of ``recap.settings.specs`` that ``spec`` names, or refuse it by its key."""
    from recap.settings.params import validate
    from recap.settings.specs import SPECS

    return validate(SPECS[spec], value, "--spec")


def _add_section(parser: Parser, section: Section) -> Any:
    if section.exclusive:
        return parser.add_mutually_exclusive_group(required=True)
    return parser.add_argument_group(section.title, section.description)


def _option(parameter: inspect.Parameter) -> Option:
    """Return what a parameter says as an option; without any help, what its name has."""
    option = Option()
    for each in get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ():
        if isinstance(each, Option):
            option = each
        else:
            key = "section" if isinstance(each, Section) else "metavar" if option.help else "help"
            option = replace(option, **{key: each})
    shared = SHARED.get(parameter.name, Option())
    if option.help is None:
        option = replace(option, help=shared.help, metavar=option.metavar or shared.metavar)
    return replace(option, parse=option.parse or shared.parse)


def _words(parameter: inspect.Parameter, option: Option) -> tuple[list[str], dict[str, Any]]:
    """Return what `argparse.ArgumentParser.add_argument` takes for a parameter."""
    kind = parameter.annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (UnionType, Union):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    several = get_origin(kind) is Sequence
    if several:
        kind = get_args(kind)[0]
    required = parameter.default is parameter.empty
    options: dict[str, Any] = {"help": option.help}
    if kind is bool:
        options["action"] = "store_true"
    elif get_origin(kind) is Literal:
        options["choices"] = list(get_args(kind))
    else:
        options["type"] = option.parse or (None if kind in (str, Any) else kind)
    if option.choices is not None:
        options["choices"] = option.choices
    if several:
        options |= {"action": "append"} if option.repeat else {"nargs": option.count or "+"}
    elif option.count is not None:
        options["nargs"] = option.count
    if option.const is not None:
        options["const"] = option.const
    positional = parameter.kind is parameter.POSITIONAL_ONLY
    metavar = option.metavar or (None if positional else METAVARS.get(kind))
    if metavar is not None:
        options["metavar"] = metavar
    if not required and kind is not bool:
        options["default"] = list(parameter.default) if option.repeat else parameter.default
    if positional:
        return [parameter.name], options
    exclusive = option.section is not None and option.section.exclusive
    options |= {"dest": parameter.name, "required": required and not exclusive}
    return [option.flag or f"--{parameter.name.replace('_', '-')}"], options


def _sentence(purpose: str) -> str:
    return f"{purpose[:1].upper()}{purpose[1:]}."
