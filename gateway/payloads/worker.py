"""The process that decodes: reads a question from its standard input, answers on its standard output, and again.

It decodes what an attacker wrote, by a schema that an attacker may have written. A few bytes can make a decoder recurse
until its stack is over, or make millions of objects. Here that ends a process which holds nothing, with little memory.
It is ended as well when a question takes too much of a processor, by a timer that no library's loop keeps waiting: on a
busy machine that is later, and not wrong. The gateway starts another.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import struct
import sys
import time
from importlib import import_module
from typing import BinaryIO

import msgspec

from gateway.payloads import reading
from gateway.payloads.frames import ANSWER_S, LARGEST, Answer, Question

MEMORY = 256 * 1024 * 1024
"""Bytes of address space, where the system counts them (Linux)."""
LARGEST_ANSWER = 256 * 1024


def answer(question: Question) -> Answer:
    """What these bytes say."""
    read = reading.avro if question.kind == "AVRO" else reading.protobuf
    try:
        said = msgspec.json.encode(read(question.schema, question.others, question.data))
    except ImportError as error:
        return Answer(why_not=f"{error.name} is not installed")
    except MemoryError:
        return Answer(why_not="it takes too much memory")
    except RecursionError:
        return Answer(why_not="it is nested too deep")
    except reading.UnreadableError as error:
        return Answer(why_not=str(error))
    except EOFError:
        return Answer(why_not="its bytes end before the schema does, so they are likely of another schema")
    except Exception:
        # libraries raise what they like, and say it to who calls them
        return Answer(why_not="its bytes do not fit the schema, or the schema cannot be read")
    if len(said) > LARGEST_ANSWER:
        return Answer(why_not=f"it has more than {LARGEST_ANSWER:,} bytes as JSON")
    return Answer(json=said)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Until the source ends."""
    decode, encode = msgspec.msgpack.Decoder(Question).decode, msgspec.msgpack.Encoder().encode
    while True:
        head = source.read(4)
        if len(head) < 4:
            return
        (size,) = struct.unpack(">I", head)
        if size > LARGEST:
            return
        question = decode(source.read(size))
        signal.setitimer(signal.ITIMER_PROF, ANSWER_S)
        since = time.process_time()
        answered = answer(question)
        answered.spent = time.process_time() - since
        signal.setitimer(signal.ITIMER_PROF, 0)
        said = encode(answered)
        sink.write(struct.pack(">I", len(said)) + said)
        sink.flush()


def main() -> None:
    """The process."""
    # whatever was inherited: its timer ends it
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # what a system does not count it does not limit
    for what, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))
    for each in reading.LIBRARIES:
        with contextlib.suppress(ImportError):
            import_module(each)
    # a sign that it is up: no question waits for an import
    sys.stdout.buffer.write(b"+")
    sys.stdout.buffer.flush()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
