"""/ui/s/{tenant}/{namespace}/{topic}/{subscription}/{page}: which function makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gateway.console import act_page, acts, due_page, open_page, reset_page

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

Page = Callable[..., "Awaitable[Reply]"]

PAGES: dict[str, Page] = {
    "messages": open_page.show,
    "due": due_page.show,
    "act": open_page.ask,
    "reset": reset_page.ask,
}
FORMS: dict[str, Page] = {"act": act_page.do, "reset": reset_page.do}


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """One of them, else what asks before an act on the whole subscription."""
    page = PAGES.get(what)
    if page is None:
        return await acts.of_subscription(visit, tenant, namespace, local, name, what)
    return await page(visit, tenant, namespace, local, name)


async def send(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """What a form is sent to."""
    form = FORMS.get(what)
    if form is None:
        return await acts.do_on_subscription(visit, tenant, namespace, local, name, what)
    return await form(visit, tenant, namespace, local, name)
