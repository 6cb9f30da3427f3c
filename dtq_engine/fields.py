"""Names in JSON that no field of a class has: msgspec would leave them out without a word."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import inspect as types

from dtq_engine.errors import NotJson
from dtq_engine.losses import named
from dtq_engine.words import taken

Object = types.StructType | types.DataclassType | types.TypedDictType
Keyless = Object | types.BoolType | types.NoneType | types.CollectionType | types.TupleType | types.NamedTupleType
Place = tuple[types.Type, object, str]


class Fields:
    """The fields that one type reads, however deep; a type without any costs nothing."""

    def __init__(self, kind: Any) -> None:
        self._kind = types.type_info(kind)
        self.any = _has_objects(self._kind)
        """Whether there is something to look at."""

    def refuse_unknown(self, value: object, path: str = "") -> None:
        """Raise NotJson, which says where, if plain JSON that fits the type names a field that does not exist."""
        waiting: list[Place] = [(self._kind, value, path)]
        while waiting:
            kind, part, where = waiting.pop()
            if isinstance(kind, Object):
                _check(kind, part, where)
            waiting.extend(_within(kind, part, where))


def has_impossible_keys(kind: Any) -> bool:
    """Whether a type, however deep, has a dict with keys that no text in JSON could be read as."""
    seen: set[int] = set()
    waiting = [types.type_info(kind)]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.DictType) and _is_no_key(each.key_type):
            return True
        waiting.extend([field.type for field in each.fields] if isinstance(each, Object) else _made_of(each))
    return False


def _is_no_key(kind: types.Type) -> bool:
    match kind:
        case types.Metadata(type=inner):
            return _is_no_key(inner)
        case types.UnionType(types=members):
            return all(map(_is_no_key, members))
        case _:
            return isinstance(kind, Keyless | types.DictType)


def _has_objects(kind: types.Type) -> bool:
    seen: set[int] = set()
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Object):
            return True
        if id(each) not in seen:
            seen.add(id(each))
            waiting.extend(_made_of(each))
    return False


def _made_of(kind: types.Type) -> Iterable[types.Type]:
    match kind:
        case types.Metadata(type=inner):
            return (inner,)
        case types.UnionType(types=members):
            return members
        case types.TupleType(item_types=items):
            return items
        case types.CollectionType(item_type=item):
            return (item,)
        case types.DictType(value_type=item):
            return (item,)
        case types.NamedTupleType(fields=fields):
            return [field.type for field in fields]
        case _:
            return ()


def _within(kind: types.Type, part: object, path: str) -> Iterable[Place]:
    """The parts of a value, each with its type."""
    match kind, part:
        case types.Metadata(type=inner), _:
            return ((inner, part, path),)
        case types.UnionType(), _:
            return [(member, part, path) for member in kind.types if _fits(member, part)]
        case types.StructType(array_like=True), list():
            return _in_order([field.type for field in kind.fields], _untagged(kind, cast("list[object]", part)), path)
        case types.StructType() | types.DataclassType() | types.TypedDictType(), dict():
            members = cast("Mapping[str, object]", part)
            named_fields = [(field.encode_name, field.type) for field in kind.fields]
            return [(each, members[name], f"{path}.{name}") for name, each in named_fields if name in members]
        case types.DictType(value_type=item), dict():
            return [(item, each, f"{path}.{name}") for name, each in cast("Mapping[str, object]", part).items()]
        case types.TupleType() | types.NamedTupleType(), list():
            return _in_order(list(_made_of(kind)), cast("Sequence[object]", part), path)
        case types.CollectionType(item_type=item), list():
            return [(item, each, f"{path}[{at}]") for at, each in enumerate(cast("Sequence[object]", part))]
        case _:
            return ()


def _in_order(kinds: Sequence[types.Type], parts: Sequence[object], path: str) -> list[Place]:
    return [(kind, each, f"{path}[{at}]") for at, (kind, each) in enumerate(zip(kinds, parts, strict=False))]


def _untagged(kind: types.StructType, part: Sequence[object]) -> Sequence[object]:
    return part[0 if kind.tag is None else 1 :]


def _fits(member: types.Type, part: object) -> bool:
    """Whether a member of a union is the one that reads `part`: there is one for objects, but for tagged ones."""
    if isinstance(member, types.StructType) and member.tag is not None:
        if member.array_like:
            return isinstance(part, list) and cast("Sequence[object]", part)[:1] == [member.tag]
        return isinstance(part, dict) and cast("Mapping[str, object]", part).get(str(member.tag_field)) == member.tag
    return True


def _check(kind: Object, part: object, path: str) -> None:
    if isinstance(kind, types.StructType) and kind.array_like:
        if isinstance(part, list) and len(_untagged(kind, cast("list[object]", part))) > len(kind.fields):
            raise NotJson(
                named(path), f"{named(path)} has more than {len(kind.fields)} elements: leave out the others."
            )
        return
    if not isinstance(part, dict):
        return
    known = [field.encode_name for field in kind.fields]
    tag = kind.tag_field if isinstance(kind, types.StructType) else None
    for name in cast("Mapping[str, object]", part):
        if name not in known and name != tag:
            raise NotJson(named(f"{path}.{name}"), f"{named(path)} has no field {name}; {taken(name, known)}")
