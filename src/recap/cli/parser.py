"""The parser behind all commands: a mistake is one sentence that names the nearest right word."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from recap.core.errors import nearest

Commands = Any  # what argparse returns for the commands below a command; it has no public name


class Parser(argparse.ArgumentParser):
    """Parses the words of one command.

    Attributes:
        spec_keys: name of the class in ``recap.settings`` that says which keys ``--spec`` takes, or None.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.spec_keys: str | None = None
        self._commands: Commands = None

    def add_subparsers(self, **options: Any) -> Commands:
        """Let commands be added, as `argparse.ArgumentParser.add_subparsers`."""
        self._commands = super().add_subparsers(**options)
        return self._commands

    @property
    def commands(self) -> dict[str, Parser]:
        """The commands below this one by their names, in the order of the help page."""
        return {} if self._commands is None else dict(self._commands.choices)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse a misspelt word first: a misspelt option also leaves its right form missing, and explains both."""
        words = sys.argv[1:] if args is None else args
        if self._commands is None:
            self._refuse_unknown_option(words)
        else:
            self._refuse_unknown_command(words)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` says more)\n")

    def format_help(self) -> str:
        """Return the help page; below it the keys of ``--spec``, from the class that checks them."""
        page = super().format_help()
        if self.spec_keys is None:
            return page
        from recap.settings.specs import described

        return f"{page}\nkeys of --spec:\n{textwrap.indent(described(self.spec_keys), '  ')}\n"

    def _refuse_unknown_command(self, words: Sequence[str]) -> None:
        before = ["", *words]  # an option of all commands has a value
        names = (
            word
            for word, last in zip(words, before, strict=False)
            if not (word.startswith("-") or (last.startswith("--") and "=" not in last))
        )
        name = next(names, None)
        if name is not None and name not in self._commands.choices:
            self.error(f"command {name!r} is unknown; {nearest(name, self._commands.choices)}")

    def _refuse_unknown_option(self, words: Iterable[str]) -> None:
        known = re.findall(r"--[\w-]+", self.format_usage()) + ["--help"]
        for word in words:
            name = word.partition("=")[0]
            if name == "--":
                return
            # A word with a space is a value; the prefix of an option is accepted for it.
            if name.startswith("--") and " " not in name and not any(option.startswith(name) for option in known):
                self.error(f"there is no option {name}; {nearest(name, known)}")


def group(commands: Commands, name: str, *, purpose: str) -> Commands:
    """Add a command with subcommands, and return the object to add them to; alone it prints its help."""
    parser = commands.add_parser(name, help=purpose, description=_sentence(purpose))
    parser.set_defaults(function=lambda _: parser.print_help())
    return parser.add_subparsers(metavar="COMMAND", title="commands")


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None] | None = None,
    *,
    purpose: str,
    example: str,
) -> Parser:
    """Add a command.

    Args:
        commands: what it is added to.
        name: the word of the command line.
        run: what it does with its arguments; None: `set_defaults` says it.
        purpose: shown in the list of commands, and on top of this command's help.
        example: command lines that work after changing the names of files.
    """
    epilog = f"example:\n{textwrap.indent(textwrap.dedent(example).strip(), '  ')}"
    parser: Parser = commands.add_parser(name, help=purpose, description=_sentence(purpose), epilog=epilog)
    parser.set_defaults(function=run)
    return parser


def _sentence(purpose: str) -> str:
    return f"{purpose[0].upper()}{purpose[1:]}."
