"""The error codes of the coordinators, which may not import the wire, are the wire's."""

from __future__ import annotations

import pytest

from gateway.coordinators.codes import Code
from gateway.wire.errors import Error


@pytest.mark.parametrize("code", list(Code))
def test_a_code_is_the_error_of_its_name(code: Code) -> None:
    assert Error[code.name].value == code.value
