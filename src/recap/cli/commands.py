"""The frame of all commands: a command is a function,
its parameters are its options, its docstring is its purpose.

An option is what ``Annotated`` says beside the type: its help; the word for its value, if that is
not PATH, N or NAME; a `Section`; for what is rare, a dictionary of what argparse takes and of
``flag``, a word that is not the parameter's name. One without help has that of its name in
`recap.cli.options`. Parameters before ``*`` are words without a name. ``spec`` becomes the settings
whose class the decorator names. A mistake on the command line is one sentence that names the
nearest right word.
"""

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from recap.cli.options import SHARED, Section
from recap.core.errors import nearest
from recap.core.process import acquire_gpus

METAVARS = {Path: "PATH", int: "N", str: "NAME"}  # where an option does not say what its value is


@dataclass(frozen=True)
class Command:
    """A function as a command; ``name`` is its word on the command line."""

    function: Callable[..., None]
    name: str
    examples: Sequence[str] = ()
    # ``module:Class`` of recap.settings that checks --spec, and whose keys the page lists
    spec: str | None = None
    # ``module:function`` that gets the options by their names;
    # a text or a path that it returns is printed
    calls: str | None = None
    hidden: bool = False  # on no help page: for rules of the workflow alone

    @property
    def parameters(self) -> Collection[inspect.Parameter]:
        """The parameters of the function."""
        return inspect.signature(self.function).parameters.values()

    @property
    def purpose(self) -> str:
        """The docstring, as the list of commands shows it."""
        text = " ".join((self.function.__doc__ or "").split()).rstrip(".")
        return text[:1].lower() + text[1:]

    def fill(self, parser: "Parser") -> None:
        """Add the examples to a parser, and an option for each parameter of the function."""
        lines = "\n".join(textwrap.dedent(each).strip() for each in self.examples)
        parser.epilog = f"example:\n{textwrap.indent(lines, '  ')}"
        parser.spec_keys = self.spec
        parser.set_defaults(function=self.run)
        sections: dict[Section | None, Any] = {None: parser}
        for section, word, options in map(argument, self.parameters):
            if section is not None and section not in sections:
                group = parser.add_argument_group(section.title, section.description)
                sections[section] = group
            sections[section].add_argument(word, **options)

    def run(self, arguments: argparse.Namespace) -> None:
        """Call the function with the values of the command line.

        A spec becomes the settings that it describes.
        """
        values = {
            parameter.name: getattr(arguments, parameter.name) for parameter in self.parameters
        }
        if self.spec is not None and values["spec"] is not None:
            values["spec"] = checked(values["spec"], self.spec)
        if self.calls is None:
            self.function(**values)
            return
        from recap.settings.kinds import resolve

        if "device" in values:
            acquire_gpus(values["device"])
        result = resolve(self.calls)(**values)
        if isinstance(result, str | Path):
            print(result)


@dataclass(frozen=True)
class Group:
    """Commands below one word, which alone prints their help."""

    name: str
    purpose: str
    commands: list[Command] = field(default_factory=list)
    hidden = False

    def command(
        self, *examples: str, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., None]], Command]:
        """Return the decorator that makes a function a command.

        ``examples`` are lines that work with other files.
        """

        def add(function: Callable[..., None]) -> Command:
            word = name or function.__name__.strip("_").replace("_", "-")
            self.commands.append(Command(function, word, examples, **options))
            return self.commands[-1]

        return add

    def fill(self, parser: "Parser") -> None:
        """Add the parsers of all commands."""
        parser.add_commands(self.commands)


command = Group("recap", "").command  # of no group: `recap.cli` lists them


class Parser(argparse.ArgumentParser):
    """Parses the words of one command.

    ``spec_keys`` is the class that lists the keys of its ``--spec``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.spec_keys: str | None = None
        # those below it that are on its help page, in its order
        self.commands: dict[str, Parser] = {}

    def add_commands(self, commands: Iterable[Command | Group]) -> None:
        """Let commands follow; without one, this parser prints its help."""
        below = self.add_subparsers(metavar="COMMAND", title="commands")
        for each in commands:
            page: dict[str, Any] = {} if each.hidden else {"help": each.purpose}
            parser = below.add_parser(
                each.name, **page, description=f"{each.purpose[:1].upper()}{each.purpose[1:]}."
            )
            each.fill(parser)
            if not each.hidden:
                self.commands[each.name] = parser
        self.set_defaults(function=lambda _: self.print_help())

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse a misspelt option first:
        it also leaves its right form missing, which argparse would say instead."""
        options = re.findall(r"--[\w-]+", self.format_usage()) + ["--help"]
        words = sys.argv[1:] if args is None else args
        if any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions):
            words = []  # another parser reads them
        for word in words:
            if word == "--":
                break
            name = word.partition("=")[0]
            if not name.startswith("--") or " " in name:  # a word with a space is a value
                continue
            # The prefix of an option is accepted for it.
            if not any(option.startswith(name) for option in options):
                self.error(f"there is no option {name}; {nearest(name, options)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.nargs == argparse.PARSER and value not in (action.choices or ()):
            self.error(f"command {value!r} is unknown; {nearest(value, self.commands)}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print one sentence and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` says more)\n")

    def format_help(self) -> str:
        """Return the help page; below it the keys of ``--spec``, from the class that checks it."""
        page = super().format_help()
        if self.spec_keys is None:
            return page
        from recap.settings.kinds import resolve
        from recap.settings.specs import described

        keys = described(resolve(f"recap.settings.{self.spec_keys}"))
        return f"{page}\nkeys of --spec:\n{textwrap.indent(keys, '  ')}\n"


def checked(value: dict[str, Any], spec: str) -> Any:
    """Return a JSON object as the ``module:Class``
    of ``recap.settings`` that ``spec`` is, or refuse it by its key."""
    from recap.settings.kinds import resolve
    from recap.settings.params import validate

    return validate(resolve(f"recap.settings.{spec}"), value, "--spec")


def argument(parameter: inspect.Parameter) -> tuple[Section | None, str, dict[str, Any]]:
    """Return the section of an option, its word,
    and what `argparse.ArgumentParser.add_argument` takes for it."""
    annotated = get_origin(parameter.annotation) is Annotated
    kind, *notes = get_args(parameter.annotation) if annotated else [parameter.annotation]
    section, own = _noted(notes)
    shared = {} if "help" in own else SHARED.get(parameter.name, {})
    positional = parameter.kind is not parameter.KEYWORD_ONLY
    required = parameter.default is parameter.empty
    options = _of_kind(kind, positional=positional, required=required)
    if "action" not in options and not required:
        options["default"] = parameter.default
    options |= shared | own
    if positional:
        return section, parameter.name, options
    options |= {"dest": parameter.name, "required": required}
    return section, options.pop("flag", f"--{parameter.name.replace('_', '-')}"), options


def _noted(notes: Iterable[Any]) -> tuple[Section | None, dict[str, Any]]:
    """Return the section of an option, and what else its ``Annotated`` says."""
    section = None
    texts = []
    options: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, Section):
            section = note
        elif isinstance(note, str):
            texts.append(note)
        else:
            options |= note
    return section, dict(zip(("help", "metavar"), texts, strict=False)) | options


def _of_kind(kind: Any, *, positional: bool, required: bool) -> dict[str, Any]:
    """Return what argparse takes for a type: ``bool``, one value, a value or none, or several."""
    if get_origin(kind) in (UnionType, Union):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if kind is bool:
        return {"action": "store_true"}
    options: dict[str, Any] = {}
    if positional and not required:
        options["nargs"] = "?"
    if get_origin(kind) is Sequence:
        (kind,) = get_args(kind)
        options["nargs"] = "*" if positional and not required else "+"
    if kind in (Path, int, float):
        options["type"] = kind
    if get_origin(kind) is Literal:
        options["choices"] = get_args(kind)
    if not positional:
        options["metavar"] = METAVARS.get(kind)
    return options
