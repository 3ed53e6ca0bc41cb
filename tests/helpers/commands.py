"""Runs a command of recap in this process and returns what it printed,
or the one line of its refusal."""

import pytest

from recap.cli import main


def printed(capsys, *words):
    main([str(word) for word in words])
    return capsys.readouterr().out


def refused_command(capsys, *words):
    """Return the one line on standard error of a command
    that ends with status 2 and prints nothing else."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err
