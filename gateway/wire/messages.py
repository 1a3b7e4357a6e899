"""One class per message of Kafka's protocol, made from its schema when first asked for.

`messages.MetadataResponse` is a slotted class with every field of every version, made with keywords; its
structs are attributes of it: `messages.MetadataResponse.MetadataResponseTopic`. `messages.pyi`, which is
generated (`python -m gateway.wire.stubs`), tells type checkers and people what there is.
"""

from __future__ import annotations

from typing import Any

from gateway.wire import compiler, schema


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(name)
    try:
        cls = compiler.classes(name)[""]
    except LookupError as error:
        raise AttributeError(str(error)) from None
    globals()[name] = cls
    return cls


def __dir__() -> list[str]:
    return schema.names()
