"""The arguments of a handler: bound by its signature, stored by name, checked against its annotations.

What is checked at submit is what the worker will check: the stored bytes are read back once through the
handler's own types, so that a call that was accepted can be made.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dtq_engine import codec, losses
from dtq_engine.errors import InvalidTask, NotJson
from dtq_engine.fields import Fields
from dtq_engine.places import locate
from dtq_engine.signature import Signature
from dtq_engine.words import plural, taken

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ARGUMENT = re.compile(r"\.(?P<name>\w+)")
_BASE64 = "expected bytes, which are base64 (RFC 4648) in JSON: pass bytes"
_ROOT = re.compile(r"(?P<what>missing required|contains unknown) field `(?P<name>.*)`$", re.DOTALL)


class Arguments:
    """Calls of one handler, written as payloads and read back."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._struct = signature.as_struct()
        self._decoder = msgspec.json.Decoder(self._struct)
        self._fields = {name: fields for name, kind in signature.types.items() if (fields := Fields(kind)).any}
        self._other_fields = Fields(signature.others)
        self._names = frozenset(signature.types)

    @property
    def digest(self) -> str:
        """What tells these parameters from others: 16 hexadecimal digits of their JSON Schema's SHA-256."""
        return hashlib.sha256(msgspec.json.encode(self.schema(), order="sorted")).hexdigest()[:16]

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a payload."""
        (root, others), shared = msgspec.json.schema_components((self._struct, self._signature.others))
        schema: dict[str, Any] = (
            {"$schema": DIALECT} | shared.pop(root["$ref"].rpartition("/")[2]) | {"title": self._signature.task}
        )
        if self._signature.takes_others:
            schema["additionalProperties"] = others
        for each in shared.values():
            _close(each)
        return schema | ({"$defs": shared} if shared else {})

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call with these arguments. Raises InvalidTask, which names the argument that is wrong."""
        bound = self._bind(args, kwargs)
        try:
            payload = codec.write(bound)
            arrived = self._arrived(payload, bound)
            if not losses.is_same(bound, arrived):
                self._refuse_unknown_fields(payload)
                losses.refuse_loss(bound, arrived, "")
        except NotJson as error:
            raise self._misfit(error, bound) from None
        return payload

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The keyword arguments in a payload, in the handler's types. Raises InvalidTask if they do not fit it."""
        arguments = self._read(payload)
        try:
            self._refuse_unknown_fields(payload)
        except NotJson as error:
            raise self._misfit(error, arguments) from None
        return arguments

    def _read(self, payload: bytes) -> dict[str, Any]:
        """As `decode`, leaving out what no field of a class has."""
        try:
            found = msgspec.structs.asdict(self._decoder.decode(payload))
            losses.refuse_depth(payload)
            arguments = {name: value for name, value in found.items() if value is not msgspec.UNSET}
            return arguments | self._others(payload) if self._signature.takes_others else arguments
        except msgspec.ValidationError as error:
            raise self._refusal(*locate(error, payload, self._decoder)) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, NotJson) as error:
            problem = error if isinstance(error, NotJson) else codec.unreadable(error, payload)
            raise InvalidTask("payload", f"{self._signature.task}: the payload cannot be read: {problem}") from None

    def _refuse_unknown_fields(self, payload: bytes) -> None:
        if not self._fields and not self._other_fields.any:
            return
        for name, value in codec.decode_object(payload).items():
            if name in self._fields:
                self._fields[name].refuse_unknown(value, name)
            elif name not in self._names:
                self._other_fields.refuse_unknown(value, name)

    def _arrived(self, payload: bytes, bound: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._read(payload)
        except InvalidTask as error:
            losses.refuse_what_is_no_number(bound.get(error.field), error.field)
            raise

    def _others(self, payload: bytes) -> dict[str, Any]:
        found = {name: value for name, value in codec.decode_object(payload).items() if name not in self._names}
        if self._signature.context in found:
            raise self._unknown(str(self._signature.context))
        return {name: self._other(name, value) for name, value in found.items()}

    def _other(self, name: str, value: object) -> Any:
        try:
            return msgspec.convert(value, self._signature.others)
        except msgspec.ValidationError as error:
            raise InvalidTask(name, f"{self._signature.task}: argument {name}: {error}.") from None

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, as Python itself would assign them; defaults are left to the worker."""
        signature = self._signature
        if len(args) > len(signature.positions):
            raise self._too_many(len(args))
        bound = dict(zip(signature.positions, args, strict=False))
        if kwargs:
            if twice := bound.keys() & kwargs.keys():
                name = min(twice)
                raise InvalidTask(name, f"{signature.task} was given {name} twice: by position and by name.")
            bound.update(kwargs)
        if missing := signature.required - bound.keys():
            raise self._missing(min(missing))
        if not signature.takes_others and (unknown := bound.keys() - self._names):
            raise self._unknown(min(unknown))
        return bound

    def _misfit(self, error: NotJson, arguments: Mapping[str, Any]) -> InvalidTask:
        field = re.split(r"[.\[]", error.path)[0]
        return InvalidTask(field if field in arguments else "payload", f"{self._signature.task}: {error}")

    def _refusal(self, place: str, problem: str) -> InvalidTask:
        """What msgspec says, as an error that names the argument."""
        problem = problem.replace("Number out", "the number is out").replace("Invalid base64 encoded string", _BASE64)
        if place:
            argument = _ARGUMENT.match(place)
            name = argument["name"] if argument else "payload"
            return InvalidTask(name, f"{self._signature.task}: argument {losses.named(place)}: {problem}.")
        if found := _ROOT.search(problem):
            unknown = found["what"].startswith("contains")
            return self._unknown(found["name"]) if unknown else self._missing(found["name"])
        return InvalidTask("payload", f"{self._signature.task}: the payload cannot be used: {problem}.")

    def _too_many(self, given: int) -> InvalidTask:
        takes = len(self._signature.positions)
        most = f"at most {plural(takes, 'positional argument')}" if takes else "no positional arguments"
        verb = "was" if given == 1 else "were"
        behind = " behind the result of what comes before it" if self._signature.is_fed else ""
        hint = ": leave out the first one, or use si(), which takes no result" if self._signature.is_fed else ""
        return InvalidTask("payload", f"{self._signature.task} takes {most}{behind}, and {given} {verb} given{hint}.")

    def _missing(self, name: str) -> InvalidTask:
        return InvalidTask(name, f"{self._signature.task} needs the argument {name}: pass it.")

    def _unknown(self, name: str) -> InvalidTask:
        hint = taken(name, sorted(self._names))
        return InvalidTask(name, f"{self._signature.task} has no argument {name}; {hint}")


def _close(schema: dict[str, Any]) -> None:
    """Have a class' schema allow no other names than those of its fields, as `Fields` does not."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    elif "prefixItems" in schema:
        schema.setdefault("items", False)
