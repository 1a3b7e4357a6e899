"""`python -m compat.admin run`: every verb of Pulsar's own pulsar-admin against Magnetar."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tqdm import tqdm

from compat.admin import answers_page, told
from compat.admin import cases as catalogue
from compat.admin.cases import Case, CasesError
from compat.admin.judge import Verdict
from compat.admin.run import RESULTS, Results, missing, prepare, run
from compat.admin.servers import SERVERS, started
from compat.admin.table import unknown
from compat.admin.tool import ToolError
from compat.peers.maven import JarsError
from compat.peers.process import PeerError
from compat.stopping import stoppable
from compat.tools import MissingToolError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.admin", description=__doc__)
    verbs = parser.add_subparsers(dest="what", required=True)
    runs = verbs.add_parser(
        "run",
        help="run the cases",
        description="Start a server and run the cases against it with Pulsar's own pulsar-admin. Says of every verb "
        "whether it is served, refused with a sentence, or wrong. Ends with 1 when one is wrong.",
    )
    runs.add_argument(
        "--noun", action="append", choices=catalogue.nouns(), help="only this noun; may be repeated"
    )
    runs.add_argument("--verb", action="append", help="only cases with this verb; may be repeated")
    runs.add_argument("--server", choices=SERVERS, default="magnetar", help="which server to start")
    runs.add_argument(
        "--report", action="store_true", help="write what the last runs found into docs/ADMIN-ANSWERS.md"
    )
    runs.add_argument("--no-save", action="store_true", help="leave the saved results alone")
    options = parser.parse_args()
    try:
        return _run(options)
    except (CasesError, JarsError, MissingToolError, PeerError, ToolError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    chosen = {noun: catalogue.load(noun) for noun in options.noun or catalogue.nouns()}
    results = Results()
    with started(options.server) as server:
        model = server.tool.model()
        wrong = [*missing(model, chosen), *told.missing(model)]
        prepare(server)
        cases = [case for noun in chosen.values() for case in noun if _asked(case, options)]
        with tqdm(cases, unit="case", disable=None) as progress:
            for case in progress:
                progress.set_postfix_str(f"{case.noun} {case.name}")
                results.add(case, run(case, server))
    if not options.no_save:
        results.save(RESULTS / f"admin-{options.server}.json", chosen)
    if options.report:
        every = [case for noun in catalogue.nouns() for case in catalogue.load(noun)]
        ours, pulsar = (Results.load(RESULTS / f"admin-{name}.json") for name in SERVERS)
        answers_page.write_commands(ours, pulsar, every)
    return _told(results, wrong, options, cases)


def _asked(case: Case, options: argparse.Namespace) -> bool:
    if options.server == "pulsar" and not case.on_pulsar:
        return False
    return not options.verb or any(verb in case.verbs for verb in options.verb)


def _told(results: Results, wrong: list[str], options: argparse.Namespace, cases: list[Case]) -> int:
    """Print the figures and what is wrong; the exit code."""
    known = {(case.noun, case.name): case.pulsar for case in cases} if options.server == "pulsar" else {}
    counts: Counter[Verdict] = Counter()
    for noun, verb, verdict, why in results.verdicts():
        reasons = [known.get((noun, name), "") for name in results.findings[noun][verb]]
        if verdict is not Verdict.SERVED and all(reasons):
            print(f"{noun} {verb}: not done by Pulsar: {reasons[0]}")
            continue
        counts[verdict] += 1
        asked = options.noun if options.verb is None else verb in options.verb
        if verdict is Verdict.WRONG or (options.server == "pulsar" and verdict is Verdict.REFUSED) or asked:
            print(f"{noun} {verb}: {verdict}{': ' if why else ''}{why}")
    wrong = [*wrong, *unknown(results, cases)]
    if options.server == "magnetar":
        wrong = [*wrong, *(line for line in told.differences(results) if not options.verb)]
    for sentence in wrong:
        print(sentence)
    total = counts.total()
    print(f"{total} verbs: {', '.join(f'{counts[verdict]} {verdict}' for verdict in Verdict)}")
    return 1 if wrong or counts[Verdict.WRONG] else 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(main())
