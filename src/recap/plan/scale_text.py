"""The sentence under a table that says what was replaced in it, made from what was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from recap.settings import Scale, Subset, TableFile, Titles

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_LAYERS = ("encoder_layers", "decoder_layers")


class Pair(NamedTuple):
    """A table's row as it is made: dataset, features, subset, model, recipe, stage."""

    before: dict[str, Any]
    after: dict[str, Any]


class Scaled(NamedTuple):
    """What the sentences under a table are made from."""

    table: TableFile
    notes: list[str]  # of the scale
    pairs: list[Pair]  # one per row
    as_printed: bool  # every row has the data set and the settings of the printed numbers


def sentence(tables: Sequence[Scaled], *, scale: Scale, titles: Titles, seeds: int) -> str:
    """Return the sentences under a table, or under a figure of several.

    Without a scale they do not speak of one.
    """
    table, pairs = tables[0].table, [pair for each in tables for pair in each.pairs]
    shares = [(_share(pair.before["subset"]), _share(pair.after["subset"])) for pair in pairs]
    runs = f"{_number(seeds)} {'run' if seeds == 1 else 'runs'}"
    parts = [
        *_names(pairs, "dataset", titles.datasets),
        *(f"{new} in place of {old}" for old, new in dict.fromkeys(shares) if old != new),
        *_names(pairs, "features", titles.features),
        *_models(pairs, titles.weights),
        *_epochs(pairs),
        *(
            [f"{runs} of each row in place of {_number(table.seeds)}"]
            if seeds != table.seeds
            else []
        ),
    ]
    replaced = _replaced(scale, all(each.as_printed for each in tables), parts)
    texts = [
        f"Scale of this run: {replaced}" if replaced else "",
        table.note,
        table.paper_note if scale.paper else "",
        *dict.fromkeys(note for each in tables for note in each.notes),
        f"Printed: {table.source}." if table.source else "",
    ]
    return " ".join(filter(None, texts))


def short_sentence(table: Scaled, *, scale: Scale, titles: Titles) -> str:
    """Return the scale of a table in one sentence that names no replacement but the data.

    Nothing without a scale.
    """
    return _replaced(scale, table.as_printed, _names(table.pairs, "dataset", titles.datasets))


def _replaced(scale: Scale, as_printed: bool, parts: Sequence[str]) -> str:
    """Return how the scale calls itself, with what it replaces.

    If nothing, only of settings that are the print's.
    """
    if not scale.opening or (scale.paper and not as_printed):
        return ""
    return f"{scale.opening}: {'; '.join(parts)}." if parts else f"{scale.opening}."


def _names(pairs: Sequence[Pair], key: str, titles: dict[str, str]) -> list[str]:
    """Return `NEW in place of OLD` of names; old ones with the same replacement together."""
    old: dict[str, list[str]] = {}
    for before, after in dict.fromkeys((pair.before[key], pair.after[key]) for pair in pairs):
        if before != after:
            new = _listed([titles.get(name, name) for name in after])
            old.setdefault(new, []).extend(titles.get(name, name) for name in before)
    return [
        f"{new} in place of {_listed(list(dict.fromkeys(names)))}" for new, names in old.items()
    ]


def _share(subset: Subset) -> str:
    what = "images" if subset.unit == "image" else "captions"
    return (
        "all" if subset.fraction == 1 else f"{100 * subset.fraction:.4g} % of the training {what}"
    )


def _models(pairs: Sequence[Pair], titles: dict[str, str]) -> list[str]:
    """Return for each kind of model which of its settings are others.

    Kinds that change alike together.
    """
    # kind -> setting -> what is said of it, in its order
    changes: dict[str, dict[str, dict[str, None]]] = {}
    for pair in pairs:
        (kind, before), (_, after) = pair.before["model"], pair.after["model"]
        of_kind = changes.setdefault(kind, {})
        for name, text in _differences(before, after, titles).items():
            of_kind.setdefault(name, {})[text] = None
    kinds: dict[str, list[str]] = {}
    for kind, texts_by_key in changes.items():
        if texts_by_key:
            kinds.setdefault(
                ", ".join(" or ".join(texts) for texts in texts_by_key.values()), []
            ).append(kind)
    return [f"{_listed(names)} with {text}" for text, names in kinds.items()]


def _differences(
    before: dict[str, Any], after: dict[str, Any], titles: dict[str, str]
) -> dict[str, str]:
    """Return the settings in which two models differ, in words: width and layers first."""
    keys = [key for key in before if before[key] != after[key]]
    if not after.get("pretrained", True):  # weights are named for models that begin with them
        keys = [key for key in keys if key != "weights"]
    changed = {}
    if "d_model" in keys:
        changed["d_model"] = (
            f"width {_shown(after['d_model'])} in place of {_shown(before['d_model'])}"
        )
    if set(_LAYERS) & set(keys):
        new, old = (
            "+".join(_shown(side[key]) for key in _LAYERS if key in side)
            for side in (after, before)
        )
        changed["layers"] = f"{new} layers in place of {old}"
    for key in keys:
        if key == "weights":
            changed[key] = " in place of ".join(
                titles.get(side[key], str(side[key])) for side in (after, before)
            )
        elif key not in ("d_model", *_LAYERS) and not key.endswith("dropout"):
            changed[key] = f"{key} {_shown(after[key])} in place of {_shown(before[key])}"
    if dropouts := [key for key in keys if key.endswith("dropout")]:
        changed["dropout"] = (
            "less dropout" if all(after[k] < before[k] for k in dropouts) else "other dropout"
        )
    return changed


def _epochs(pairs: Sequence[Pair]) -> list[str]:
    """Return the epochs of both stages where recipes were replaced."""
    replaced = [pair for pair in pairs if pair.before["recipe"] != pair.after["recipe"]]
    if not replaced:
        return []
    old, new = (
        [_range(replaced, side, stage) for stage in ("xe", "scst")] for side in Pair._fields
    )
    if old == new:
        return ["another recipe of as many epochs"]
    second = f" and {new[1]} of self-critical training" if new[1] else ""
    unit = "epoch" if new[0] == "1" else "epochs"
    return [
        f"{new[0]} {unit} of cross-entropy{second} in place of {' and '.join(filter(None, old))}"
    ]


def _range(pairs: Sequence[Pair], side: str, stage: str) -> str:
    """Return the epochs of a stage in those rows that train it, before or after: ``3 to 70``."""
    recipes = [
        getattr(pair, side)["recipe"]
        for pair in pairs
        if stage == "xe" or pair.after["stage"] == stage
    ]
    epochs = sorted(
        {settings.epochs for recipe in recipes if (settings := getattr(recipe, stage)) is not None}
    )
    return " to ".join(map(str, dict.fromkeys([*epochs[:1], *epochs[-1:]])))


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
