"""harness/search in the daemon, against servers on loopback that give pages in each engine's shape.

The pages were written by hand; none of them is an engine's.
"""

import base64
import threading
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from servers import Server, reply

pytestmark = pytest.mark.trio

BOTH = "https://both.example/page"
WRAPPED = "a1" + base64.urlsafe_b64encode(BOTH.encode()).decode().rstrip("=")

PAGES = {
    "duckduckgo": f"""<div id="links">
<div class="result results_links web-result"><h2 class="result__title"><a rel="nofollow" class="result__a"
href="//duckduckgo.com/l/?uddg={quote(BOTH, safe="")}&amp;rut=1">Both</a></h2>
<a class="result__snippet" href="x">Known to <b>all</b>.</a></div>
<div class="result web-result"><h2><a class="result__a" href="https://duck.example/">Duck</a></h2></div>
</div>""",
    "bing": f"""<ol id="b_results">
<li class="b_algo"><h2><a href="https://bing.example/">Bing &amp; co</a></h2>
<div class="b_caption"><p>Its own.</p></div></li>
<li class="b_algo"><h2><a href="https://www.bing.com/ck/a?!&amp;&amp;u={WRAPPED}&amp;ntb=1">Both here</a>
</h2></li>
</ol>""",
    "brave": """<div class="snippet svelte-1" data-type="web"><a href="https://brave.example/">
<div class="title">Brave</div></a><div class="generic-snippet">Words.</div></div>""",
    "mojeek": f"""<ul class="results-standard"><li class="r1">
<h2><a class="title" href="{BOTH}">Both, too</a></h2><p class="s">Once more.</p></li></ul>""",
    "wikipedia": """{"query": {"search": [{"title": "Zoë Both", "snippet": "<span>en</span>"}]}}""",
    "searxng": """{"results": [{"url": "https://sx.example/", "title": "Sx", "content": ""}]}""",
}


class Engine:
    """One engine on loopback, which answers once `ready` is set."""

    def __init__(self, name, ready):
        self.name = name
        self.ready = ready
        self.page = reply(PAGES[name].encode(), "Content-Type: text/html; charset=utf-8")
        self.server = Server(self.answer)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.port}"

    def answer(self, connection, _request):
        assert self.ready.wait(20)
        connection.sendall(self.page)


@pytest.fixture
def engines():
    ready = threading.Event()
    ready.set()
    engines = {name: Engine(name, ready) for name in PAGES}
    for engine in engines.values():
        engine.server.__enter__()
    yield engines
    ready.set()
    for engine in engines.values():
        engine.server.__exit__()


@pytest.fixture
async def search(keeper, engines):
    search = keeper("search")
    await search.declare(hosts=[engine.base for engine in engines.values()])
    return search


def placed(engines, *names):
    return [f"{name}={engines[name].base}" for name in names or engines]


async def test_all_engines_are_asked_and_their_results_become_one_list(search, engines):
    said = await search.done("web_search", query="ü & b", engines=placed(engines))
    lines = said.splitlines()
    assert lines[:4] == [
        "1. Both",
        f"   {BOTH}",
        "   Known to all.",
        "   [duckduckgo 1, bing 2, mojeek 1]",
    ]
    assert [line[3:] for line in lines if line[1:3] == ". "] == [
        "Both",
        "Bing & co",
        "Brave",
        "Zoë Both",
        "Sx",
        "Duck",
    ]
    assert f"   {engines['wikipedia'].base}/wiki/Zo%C3%AB_Both" in lines
    for name, engine in engines.items():
        (request,) = engine.server.requests
        query = parse_qs(urlsplit(request.line.split(" ")[1]).query)
        assert (query.get("q") or query["srsearch"]) == ["ü & b"], name
        assert request.all("accept-encoding") == ["identity"]


async def test_engines_are_asked_at_once(search, engines):
    """None answers before all of them were asked."""
    everybody = threading.Barrier(len(engines))

    def answer_together(engine):
        def answer(connection, _request):
            everybody.wait(20)
            connection.sendall(engine.page)

        return answer

    for engine in engines.values():
        engine.server.answer = answer_together(engine)
    said = await search.done("web_search", query="x", engines=placed(engines))
    assert said.startswith("1. Both\n")


async def test_engines_in_trouble_are_named_and_the_others_answer(search, engines):
    engines["bing"].page = reply(b"slow down", status="429 Too Many Requests")
    engines["brave"].page = b""
    engines["mojeek"].page = reply(b"<html>another shape</html>")
    said = await search.done(
        "web_search", query="x", engines=placed(engines, "bing", "brave", "mojeek", "searxng")
    )
    assert said.startswith(
        "1. Sx\n   https://sx.example/\n   [searxng 1]\n[bing: it answered with status 429]\n[brave: "
    )
    assert said.endswith("[mojeek: no results, or a page of another shape]\n")


async def test_a_host_that_was_not_granted_is_not_asked(search):
    outcome = await search.call("web_search", query="x", engines=["bing", "searxng=http://127.0.0.1:1"])
    assert outcome.failed == (
        "no engine has results\n"
        "[bing: host is not granted: `https://www.bing.com`]\n"
        "[searxng: host is not granted: `http://127.0.0.1:1`]\n"
    )


@pytest.mark.parametrize(
    "page",
    [
        b'<li class="b_algo"><div><h2><b>' * 300_000,
        b'<li class="b_algo">' + b"<h2>" * 2_000_000,
        b"<p>x</p>" * 1_000_000,
        b'<a b="' * 1_500_000,
        b"<!--" * 2_000_000,
        b"<script>" * 1_000_000,
    ],
    ids=["items", "item", "none", "quotes", "comments", "scripts"],
)
async def test_a_page_as_large_as_an_answer_may_be_is_read_in_time(search, engines, page):
    engines["bing"].page = reply(page)
    outcome = await search.call("web_search", query="x", engines=placed(engines, "bing"))
    assert outcome.failed == "no engine has results\n[bing: no results, or a page of another shape]\n"
