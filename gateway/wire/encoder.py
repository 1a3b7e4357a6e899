"""Generates the encoder of one version of a message."""

from __future__ import annotations

from typing import Any

from gateway.wire import primitives
from gateway.wire.generator import FIXED, Generator
from gateway.wire.schema import Field

_FIXED_NAMES = {letter: name for name, letter in FIXED.items()}


class Encoder(Generator):
    """Writes `encode(x)`: the bytes of a message."""

    direction = "encode"

    def __init__(self, name: str, version: int, classes: dict[str, Any]) -> None:
        super().__init__(name, version, classes)
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
            f"{'compact' if self.flexible else 'plain'}_{_FIXED_NAMES[letter]}",
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
