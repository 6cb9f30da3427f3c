"""What Redis answers when it refuses, in sentences that say what to do."""

from collections.abc import Callable, Mapping, Sequence

from dtq_engine.errors import RedisDamaged, RedisUnavailable

Word = str | bytes | int | float

MEND = "rename or delete it, then run dtq doctor --repair."
SCRIPTED = frozenset({"EVAL", "EVALSHA", "FCALL"})

READ_ONLY = (
    "Redis is a read-only replica: give DTQ_REDIS_URL the address of the primary, or make this server one "
    "(REPLICAOF NO ONE)."
)
UNABLE: Mapping[str, str] = {
    "read only replica": READ_ONLY,
    "read-only": READ_ONLY,
    "DB index": "Redis has no database of the number in DTQ_REDIS_URL: give a lower one, or raise `databases` in its "
    "configuration.",
    "CERTIFICATE_VERIFY_FAILED": "Redis has a certificate that is not trusted here: name its CA in the address "
    "(?ssl_ca_certs=FILE), or take any certificate with DTQ_REDIS_TLS_VERIFY=0.",
    "MISCONF": "Redis cannot save to disk and refuses writes until it can: see its log, and whether the disk is full.",
}
"""By a part of its answer, why a server that is there cannot serve."""


def unavailable(error: Exception, may_have_run: bool = False) -> RedisUnavailable:
    """A driver's error in our own words."""
    said = str(error)
    why = next((why for part, why in UNABLE.items() if part in said), None)
    return RedisUnavailable(
        why or f"Redis does not answer ({error}): check that it runs and DTQ_REDIS_URL.", may_have_run
    )


def damage_of(answer: bytes) -> str:
    """What a script found to be damaged, `DAMAGED <key> is a <type>, not a <type>`, as a sentence."""
    found = answer.decode("utf-8", "replace").removeprefix("DAMAGED ").removeprefix("ERR ")
    return f"The key {found}: {MEND}" if " is a " in found else f"There is damage to {found}: {MEND}"


def damaged(error: Exception, command: Sequence[Word], type_of: Callable[[str], str]) -> RedisDamaged:
    """Which key holds something else than it must, and what; `type_of` asks Redis."""
    said = str(error)
    if said.startswith("DAMAGED"):
        return RedisDamaged(damage_of(said.encode()))
    if command[0] in SCRIPTED:
        if (kind := type_of(key := _text(command[3]))) not in {"none", "string"}:
            return RedisDamaged(f"The key {key} is a {kind}, and must be something else: {MEND}")
        return RedisDamaged(f"A key that goes with {key} is of a wrong type: dtq doctor says which one.")
    for word in command[1:]:
        if (kind := type_of(key := _text(word))) != "none":
            return RedisDamaged(f"The key {key} is a {kind}, and must be something else: {MEND}")
    return RedisDamaged(f"A key was of a wrong type for {_text(command[0])} ({said}): dtq doctor says which one.")


def _text(word: Word) -> str:
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)
