"""What whoever starts a gateway is warned of: who may come in, and who may do what."""

from __future__ import annotations

import pytest
import uvloop

from gateway.server import warnings
from store import memory
from tests.gateway.broker.held import serving_on


@pytest.mark.parametrize(
    ("flags", "listeners", "said"),
    [
        ([], "127.0.0.1:0", []),
        (["authorization=true"], "127.0.0.1:0", ["nobody is a super-user"]),
        (["authorization=true", "super.users=User:ada"], "127.0.0.1:0", []),
        (["super.users=User:ada"], "SASL_PLAINTEXT://127.0.0.1:0", ["User:ada, and there is no such user"]),
        (
            ["super.users=User:ada", f"token.secret.key=data:;base64,{'A' * 44}"],
            "SASL_PLAINTEXT://127.0.0.1:0",
            [],
        ),
        (["insecure=true"], "0.0.0.0:0", ["other machines can reach 0.0.0.0:0"]),
        (["tenancy.unbound=no/where"], "127.0.0.1:0", ["there is no such namespace"]),
        (["tenancy.unbound=public/default"], "127.0.0.1:0", []),
        (
            ["sasl.enabled.mechanisms=OAUTHBEARER", "super.users=User:ada"],
            "SASL_PLAINTEXT://127.0.0.1:0",
            ["no key is known that signs tokens"],
        ),
    ],
)
def test_what_is_said_at_the_start(flags: list[str], listeners: str, said: list[str]) -> None:
    async def main() -> list[str]:
        async with serving_on(memory.open(), *flags, listeners=listeners) as gateway:
            return list(warnings(gateway.broker))

    found = uvloop.run(main())
    assert len(found) == len(said)
    assert all(text in line for text, line in zip(said, found, strict=True))
