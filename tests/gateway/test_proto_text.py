"""What of a .proto text is read, and what is refused. That it decodes: admin/test_schemas.py."""

from __future__ import annotations

import pytest

from gateway.payloads.proto_text import DEEPEST, ProtoError, parsed


def test_what_says_how_bytes_are_read_is_read_and_the_rest_skipped() -> None:
    file = parsed(
        "a.proto",
        """
        syntax = "proto2"; /* service { */ package a.b;
        import public "x.proto"; import 'y.proto';
        option java_package = "a;b}";
        service S { rpc Get (A) returns (B) { option (http) = { get: "/x" }; } }
        extend A { optional int32 more = 100; }
        message A {
          required .a.b.B first = 0x1; // a comment
          repeated int32 second = 2 [packed = true, (o) = { a: ["}", ";"] }];
          map<string, B> third_one = 3;
          extensions 100 to max;
        }
        message B {}
        enum E { option allow_alias = true; X = 0; Y = -1; Z = 0 [deprecated = true]; }
        """,
    )
    assert (file.syntax, file.package, list(file.dependency)) == ("proto2", "a.b", ["x.proto", "y.proto"])
    assert list(file.public_dependency) == [0]
    (a, b) = file.message_type
    assert [(each.name, each.number, each.type_name) for each in a.field] == [
        ("first", 1, ".a.b.B"), ("second", 2, ""), ("third_one", 3, "ThirdOneEntry"),
    ]  # fmt: skip
    assert [each.name for each in a.nested_type] == ["ThirdOneEntry"]
    assert b.name == "B"
    (enum,) = file.enum_type
    assert [(each.name, each.number) for each in enum.value] == [("X", 0), ("Y", -1), ("Z", 0)]


@pytest.mark.parametrize(
    "text",
    [
        "message", "message A {", "message A { int32 = 1; }", "message A { int32 a = b; }", "\\", 'syntax = "proto4";',
        'edition = "2024";', "message A { optional group G = 1 { } }", "hello", "/* no end", '"', "enum E { A = ; }",
        "message A { message B { " * (DEEPEST + 2),
    ],
)  # fmt: skip
def test_what_makes_no_sense_or_is_not_read_is_refused(text: str) -> None:
    with pytest.raises(ProtoError):
        parsed("a.proto", text)
