"""Generates the decoder of one version of a message."""

from __future__ import annotations

import struct

from gateway.wire.generator import FIXED, Generator
from gateway.wire.primitives import NO_GROUP_HAS
from gateway.wire.schema import Field

MAX_ELEMENTS = 100_000
"""Elements that the arrays of one request may have together: in 1 MB there is room for a million empty ones, and the
handlers of most APIs answer them all in one turn of the loop. A fetch of 60,000 partitions, 35,000 names are fine."""


class Decoder(Generator):
    """Writes `decode(b, p, e)`: the message between two positions of the bytes."""

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
            if field.entity in ("groupId", "transactionalId") and self.title.partition(" ")[0].endswith(
                "Request"
            ):
                # no client names the group of another home
                self.refuse(
                    f"{NO_GROUP_HAS!r} in {target}", field, "has a control character that no group may have"
                )
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
