"""Turns a schema into straight-line Python: one function per (message, version, encode or decode).

Three ideas make the generated code fast. Fixed-width fields that follow one another, the length in front of a
string or an array included, become a single `struct` call. Nothing is looked up at run time that the version
already decides: no branch on versions, no loop over fields, no descriptor objects. And decoding checks each
length once, against the end of the frame, before it is used; what slips through (a read past the end, a wrong
UTF-8 sequence) raises an exception of Python's own that the codec turns into `Malformed`.

`source()` shows what is generated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.wire import primitives, schema
from gateway.wire.malformed import Malformed
from gateway.wire.schema import Field
from gateway.wire.varint import encode_uvarint

MAX_ELEMENTS = 100_000
"""Elements that the arrays of one request may have together: in 1 MB there is room for a million empty ones, and the
handlers of most APIs answer them all in one turn of the loop. A fetch of 60,000 partitions, 35,000 names are fine."""

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Primitive types of a fixed width, as `struct` writes them."""

_classes: dict[str, dict[str, Any]] = {}


def classes(name: str) -> dict[str, Any]:
    """The classes of a message by name: its own under "", those of its structs under theirs.

    They are msgspec Structs: slotted, made with keywords, every field with the schema's default, comparable.
    """
    made = _classes.get(name)
    if made is None:
        made = {}
        top = _make_class(name, name, schema.load(name).fields, made)
        for inner, cls in made.items():
            setattr(top, inner, cls)
        made[""] = top
        _classes[name] = made
    return made


def _make_class(message: str, name: str, fields: tuple[Field, ...], made: dict[str, Any]) -> Any:
    members: list[tuple[str, Any, Any]] = []
    for field in fields:
        if field.fields is not None and field.type not in made:
            made[field.type] = _make_class(message, field.type, field.fields, made)
        default: Any
        if field.default is None or (field.fields is None and not field.array):
            default = field.default
        else:
            default = msgspec.field(default_factory=list if field.array else made[field.type])
        members.append((field.attribute, object, default))
    qualified = message if name == message else f"{message}.{name}"
    return msgspec.defstruct(
        name, members, module="gateway.wire.messages", namespace={"__qualname__": qualified}
    )


def compile_decoder(name: str, version: int) -> Callable[[bytes, int, int], Any]:
    """A function `(data, position, end)` to the message found there; `end` is len(data)."""
    decode: Callable[[bytes, int, int], Any] = _run(_Decoder(name, version))
    return decode


def compile_encoder(name: str, version: int) -> Callable[[Any], bytes]:
    """A function from a message to its bytes, without any header."""
    encode: Callable[[Any], bytes] = _run(_Encoder(name, version))
    return encode


def source(name: str, version: int, direction: str) -> str:
    """The generated code, for people; `direction` is "encode" or "decode"."""
    return (_Decoder if direction == "decode" else _Encoder)(name, version).generate()


def _run(generator: _Generator) -> Any:
    code = compile(generator.generate(), f"<{generator.title} {generator.direction}>", "exec")
    exec(code, generator.names)
    return generator.names[generator.direction]


class _Generator:
    """Lines of code being written, and the run of fixed-width values that waits to be merged."""

    direction = ""

    def __init__(self, name: str, version: int) -> None:
        message = schema.load(name)
        if version not in message.versions:
            raise LookupError(
                f"{name} has versions {message.versions.first} to {message.versions.last}, not {version}"
            )
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.title = f"{name} v{version}"
        self.classes = classes(name)
        self.names: dict[str, Any] = {
            "Malformed": Malformed,
            "uvarint": primitives.uvarint,
            "varint": encode_uvarint,
            "skip_tags": primitives.skip_tags,
            "pack_long": primitives.pack_long,
            "unpack_from": struct.unpack_from,
            "ONE": primitives.ONE_BYTE,
        }
        self.lines: list[str] = []
        self.depth = 1
        self.counter = 0
        # (format character, variable or expression); "x" is a zero byte and has none
        self.run: list[tuple[str, str]] = []

    def generate(self) -> str:
        raise NotImplementedError

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, stem: str, value: Any) -> str:
        self.names[stem] = value
        return stem

    def packer(self, run: list[tuple[str, str]], method: str) -> str:
        letters = "".join(letter for letter, _ in run)
        name = f"{method}_{letters.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + letters), method)
        return name

    def split(self, fields: tuple[Field, ...]) -> tuple[list[Field], list[Field]]:
        """The fields of this version: those in the body, and the tagged ones by tag."""
        here = [field for field in fields if self.version in field.versions]
        body = [field for field in here if self.version not in field.tagged]
        tagged = [field for field in here if self.version in field.tagged]
        return body, sorted(tagged, key=lambda field: field.tag)

    def default(self, field: Field) -> str:
        if field.default is None:
            return "None"
        if field.array:
            return "[]"
        if field.fields is not None:
            return self.class_name(field) + "()"
        return repr(field.default)

    def class_name(self, field: Field) -> str:
        return self.constant(f"C_{field.type}", self.classes[field.type])

    def nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def smallest(self, field: Field) -> int:
        """The fewest bytes one element of a field takes: what an array's count is checked against."""
        if field.fields is not None:
            body, _ = self.split(field.fields)
            return sum(self.smallest_whole(inner) for inner in body) + self.flexible
        if field.type in FIXED:
            return struct.calcsize(">" + FIXED[field.type])
        if self.flexible:
            return 1
        return 2 if field.type == "string" else 4

    def smallest_whole(self, field: Field) -> int:
        if field.array:
            return 1 if self.flexible else 4
        if field.fields is not None and self.nullable(field):
            return 1
        return self.smallest(field)


class _Decoder(_Generator):
    direction = "decode"

    def generate(self) -> str:
        top = self.constant("C", self.classes[""])
        made = self.struct(self.message.fields, top)
        # librdkafka sends three bytes too many in a Metadata for all topics, and Kafka never looked.
        overrun = "p > e" if self.title.partition(" ")[0].endswith("Request") else "p != e"
        self.line(f"if {overrun}:")
        self.line(f"    raise Malformed('{self.title}: the bytes do not end where the frame does')")
        self.line(f"return {made}")
        head = ["def decode(b, p, e):"]
        if any("left -=" in line for line in self.lines):
            head.append(f"    left = {MAX_ELEMENTS}")
        if any("m[" in line for line in self.lines):
            head.append("    m = memoryview(b)")
        return "\n".join(head + self.lines)

    def struct(self, fields: tuple[Field, ...], cls: str) -> str:
        """Decodes a struct; returns the expression that makes it."""
        body, tagged = self.split(fields)
        values = {field.attribute: self.value(field) for field in body}
        if self.flexible:
            count = self.fresh("n")
            self.run.append(("B", count))
            self.flush()
            if tagged:
                values |= self.tags(tagged, count)
            else:
                self.line(f"if {count}:")
                self.line(f"    p = skip_tags(b, p, e, {count})")
        else:
            self.flush()
        arguments = []
        positional = True
        for field in fields:
            # positional arguments are the quickest; after the first absent field they have to be named
            if field.attribute not in values:
                positional = False
            elif positional:
                arguments.append(values[field.attribute])
            else:
                arguments.append(f"{field.attribute}={values[field.attribute]}")
        return f"{cls}({', '.join(arguments)})"

    def flush(self) -> None:
        if self.run:
            targets = ", ".join(target for _, target in self.run)
            comma = "," if len(self.run) == 1 else ""
            size = struct.calcsize(">" + "".join(letter for letter, _ in self.run))
            if len(self.run) == 1 and self.run[0][0] == "B":
                self.line(f"{targets} = b[p]")
            else:
                self.line(f"{targets}{comma} = {self.packer(self.run, 'unpack_from')}(b, p)")
            self.line(f"p += {size}")
            self.run = []

    def value(self, field: Field) -> str:
        """Decodes one field; returns the variable (or expression) that holds it."""
        if field.array:
            return self.array(field)
        return self.one(field, self.nullable(field))

    def one(self, field: Field, nullable: bool) -> str:
        if field.fields is not None:
            return self.nested(field, nullable)
        target = self.fresh("v")
        if field.type in FIXED:
            self.run.append((FIXED[field.type], target))
        else:
            self.sized(field, nullable, target)
        return target

    def nested(self, field: Field, nullable: bool) -> str:
        assert field.fields is not None
        cls = self.class_name(field)
        if not nullable:
            return self.struct(field.fields, cls)
        sign = self.fresh("n")
        target = self.fresh("v")
        self.run.append(("b", sign))
        self.flush()
        self.line(f"if {sign} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{target} = {self.struct(field.fields, cls)}")
        self.depth -= 1
        return target

    def length(self, letter: str) -> str:
        """Reads a length or count, with what waits before it; flexible versions send it plus one."""
        length = self.fresh("n")
        self.run.append(("B" if self.flexible else letter, length))
        self.flush()
        if self.flexible:
            self.line(f"if {length} > 127:")
            self.line(f"    {length}, p = uvarint(b, p, {length})")
        return length

    def refuse(self, condition: str, field: Field, what: str) -> None:
        self.line(f"if {condition}:")
        self.line(f"    raise Malformed('{self.title}: {field.name} {what}')")

    def absent(self, length: str) -> tuple[str, str]:
        """(is it null, is it neither null nor a length) of what `length()` read."""
        return (f"not {length}", "") if self.flexible else (f"{length} == -1", f"{length} < 0")

    def sized(self, field: Field, nullable: bool, target: str) -> None:
        """A string, bytes or records."""
        length = self.length("h" if field.type == "string" else "i")
        null, wrong = self.absent(length)
        stop = f"p + {length} - 1" if self.flexible else f"p + {length}"
        if nullable:
            self.line(f"if {null}:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        else:
            wrong = wrong or null
        self.line(f"q = {stop}")
        self.refuse(f"{wrong} or q > e" if wrong else "q > e", field, "has no length that fits")
        if field.type == "string":
            self.line(f"{target} = str(b[p:q], 'utf-8')")
        else:
            self.line(f"{target} = {'m' if field.type == 'records' else 'b'}[p:q]")
        self.line("p = q")
        if nullable:
            self.depth -= 1

    def array(self, field: Field) -> str:
        target = self.fresh("v")
        count = self.length("i")
        null, wrong = self.absent(count)
        if self.nullable(field):
            self.line(f"if {null}:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        else:
            wrong = wrong or null
        if self.flexible:
            self.refuse(f"{null}", field, "is null") if wrong else None
            self.line(f"{count} -= 1")
            wrong = ""
        size = max(1, self.smallest(field))
        too_many = f"{count} > e - p" if size == 1 else f"{count} * {size} > e - p"
        self.refuse(f"{wrong} or {too_many}" if wrong else too_many, field, "has no count that fits")
        if self.title.partition(" ")[0].endswith("Request"):
            self.line(f"left -= {count}")
            self.refuse("left < 0", field, "names too much for one request")
        if field.type in FIXED and field.type != "uuid":
            letter = FIXED[field.type]
            self.line(f"{target} = list(unpack_from(f'>{{{count}}}{letter}', b, p))")
            self.line(f"p += {count} * {size}" if size > 1 else f"p += {count}")
        else:
            self.line(f"{target} = []")
            self.line(f"for _ in range({count}):")
            self.depth += 1
            element = self.one(field, False)
            self.flush()
            self.line(f"{target}.append({element})")
            self.depth -= 1
        if self.nullable(field):
            self.depth -= 1
        return target

    def tags(self, tagged: list[Field], count: str) -> dict[str, str]:
        """The tagged fields this version knows; others are stepped over (KIP-482)."""
        targets = {field.attribute: self.fresh("t") for field in tagged}
        for field in tagged:
            self.line(f"{targets[field.attribute]} = {self.default(field)}")
        last, tag, size, stop = (self.fresh(stem) for stem in ("last", "tag", "n", "stop"))
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, p = uvarint(b, p, {count})")
        self.line(f"if {count} * 2 > e - p:")
        self.line(f"    raise Malformed('{self.title}: more tagged fields than bytes')")
        self.line(f"{last} = -1")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        for variable in (tag, size):
            self.line(f"{variable} = b[p]")
            self.line("p += 1")
            self.line(f"if {variable} > 127:")
            self.line(f"    {variable}, p = uvarint(b, p, {variable})")
        self.line(f"{stop} = p + {size}")
        self.line(f"if {tag} <= {last} or {stop} > e:")
        self.line(f"    raise Malformed('{self.title}: tagged fields out of order, twice, or too long')")
        self.line(f"{last} = {tag}")
        for index, field in enumerate(tagged):
            self.line(f"{'elif' if index else 'if'} {tag} == {field.tag}:")
            self.depth += 1
            made = self.value(field)
            self.flush()
            self.line(f"{targets[field.attribute]} = {made}")
            self.refuse(f"p != {stop}", field, "is not as long as its tag says")
            self.depth -= 1
        self.line("else:")
        self.line(f"    p = {stop}")
        self.depth -= 2
        return targets


class _Encoder(_Generator):
    direction = "encode"

    def __init__(self, name: str, version: int) -> None:
        super().__init__(name, version)
        # the list's append that parts go to: a tagged field collects its own, to know how long it is
        self.append = "a"

    def generate(self) -> str:
        self.struct(self.message.fields, "x")
        self.flush()
        self.line("return b''.join(parts)")
        return "\n".join(["def encode(x):", "    parts = []", "    a = parts.append", *self.lines])

    def part(self, expression: str) -> None:
        self.line(f"{self.append}({expression})")

    def packed(self, run: list[tuple[str, str]]) -> str:
        arguments = [value for letter, value in run if letter != "x"]
        if not arguments:
            return repr(bytes(len(run)))
        return f"{self.packer(run, 'pack')}({', '.join(arguments)})"

    def flush(self) -> None:
        if self.run:
            self.part(self.packed(self.run))
            self.run = []

    def length(self, length: str, letter: str) -> None:
        """Writes a length or count behind what waits; the variable is one more in flexible versions."""
        if not self.flexible:
            self.run.append((letter, length))
            self.flush()
        elif self.run:
            self.line(f"if {length} < 128:")
            self.line(f"    {self.append}({self.packed([*self.run, ('B', length)])})")
            self.line("else:")
            self.line(f"    {self.append}({self.packed(self.run)})")
            self.line(f"    {self.append}(varint({length}))")
            self.run = []
        else:
            self.part(f"ONE[{length}] if {length} < 128 else varint({length})")

    def null(self, letter: str) -> None:
        self.run.append(("x", "") if self.flexible else (letter, "-1"))
        self.flush()

    def struct(self, fields: tuple[Field, ...], holder: str) -> None:
        body, tagged = self.split(fields)
        for field in body:
            self.value(field, f"{holder}.{field.attribute}")
        if self.flexible:
            if tagged:
                self.tags(tagged, holder)
            else:
                self.run.append(("x", ""))

    def value(self, field: Field, expression: str) -> None:
        if not field.array and field.type in FIXED:
            self.run.append((FIXED[field.type], expression))
            return
        value = self.fresh("v")
        self.line(f"{value} = {expression}")
        if not self.nullable(field):
            self.present(field, value)
            return
        waiting = self.run
        self.line(f"if {value} is None:")
        self.depth += 1
        self.run = list(waiting)
        if field.fields is not None and not field.array:
            self.run.append(("b", "-1"))
            self.flush()
        else:
            self.null("h" if field.type == "string" and not field.array else "i")
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self.run = list(waiting)
        if field.fields is not None and not field.array:
            self.run.append(("b", "1"))
        self.present(field, value)
        self.flush()
        self.depth -= 1

    def present(self, field: Field, value: str) -> None:
        """A value that is not null."""
        if field.array:
            self.array(field, value)
        elif field.fields is not None:
            self.struct(field.fields, value)
        else:
            self.sized(field, value)

    def sized(self, field: Field, value: str) -> None:
        if field.type == "string":
            self.line(f"{value} = {value}.encode()")
        length = self.fresh("n")
        self.line(f"{length} = len({value}) + 1" if self.flexible else f"{length} = len({value})")
        self.length(length, "h" if field.type == "string" else "i")
        self.part(value)

    def array(self, field: Field, value: str) -> None:
        if field.type in FIXED and field.type != "uuid":
            self.numbers(FIXED[field.type], value)
            return
        count = self.fresh("n")
        self.line(f"{count} = len({value}) + 1" if self.flexible else f"{count} = len({value})")
        self.length(count, "i")
        element = self.fresh("x")
        self.line(f"for {element} in {value}:")
        self.depth += 1
        if field.type == "uuid":
            self.part(element)
        else:
            self.present(field._replace(array=False), element)
        self.flush()
        self.depth -= 1

    def numbers(self, letter: str, value: str) -> None:
        self.flush()
        count = self.fresh("n")
        packers = self.constant(
            f"{'compact' if self.flexible else 'plain'}_{FIXED_NAMES[letter]}",
            primitives.array_packers(letter, self.flexible),
        )
        self.line(f"{count} = len({value})")
        first = f"{count} + 1" if self.flexible else count
        self.part(
            f"{packers}[{count}]({first}, *{value}) if {count} < {primitives.SMALL} "
            f"else pack_long({letter!r}, {self.flexible}, {value})"
        )

    def tags(self, tagged: list[Field], holder: str) -> None:
        """Tagged fields, in the order of their tags, of those that differ from their default (KIP-482)."""
        found, count = self.fresh("t"), self.fresh("n")
        # the body's run must be written before anything that is collected aside
        self.flush()
        self.line(f"{found} = []")
        self.line(f"{count} = 0")
        for field in tagged:
            value = self.fresh("v")
            self.line(f"{value} = {holder}.{field.attribute}")
            differs = f"{value} is not None" if field.default is None else f"{value} != {self.default(field)}"
            self.line(f"if {differs}:")
            self.depth += 1
            parts, append, joined = (self.fresh(stem) for stem in ("parts", "a", "j"))
            self.line(f"{parts} = []")
            self.line(f"{append} = {parts}.append")
            outer, self.append = self.append, append
            self.value(field, value)
            self.flush()
            self.append = outer
            self.line(f"{joined} = b''.join({parts})")
            self.line(f"{count} += 1")
            self.line(f"{found} += (varint({field.tag}), varint(len({joined})), {joined})")
            self.depth -= 1
        self.length(count, "i")
        self.line(f"for part in {found}:")
        self.line(f"    {self.append}(part)")


FIXED_NAMES = {letter: name for name, letter in FIXED.items()}
