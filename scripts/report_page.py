#!/usr/bin/env python3
"""Looks at the pages of `spanlith bench --report`, `twin` and `experiment run --report` in a real browser, without a display.

  report_page.py [--browser PATH] [--shots DIR] [--self-test] SPANLITH
  report_page.py [--browser PATH] [--shots DIR] [--self-test] --page FILE

SPANLITH is the command-line program, which makes a page of each kind in a directory that is removed again; FILE is a
page that there is already. Chromium opens each 1280 and 400 px wide, in light and in dark, with its
<details> closed and then open, and is asked through its DevTools pipe:
  - console, network: no error, warning or exception; no request but for the file itself;
  - width, spill: nothing makes the page scroll sideways, and no text runs out of its box;
  - heading, chart: headings with text; charts with a size, shapes, finite coordinates, and labels that
    are neither cut off nor on one another, marks of an axis with names of their own;
  - small, contrast: text of at least 9 px, and of a contrast of 4.5:1 to what colours the boxes around it;
  - words: no NaN, undefined or Infinity, tooltips and closed <details> included;
  - details, link, tooltip: a click opens, closes or leads there; under the mouse a column of a chart
    shades itself and has a text (the browser's own window with it is not part of the page);
  - scheme: the page is darker in dark.
--self-test plants faults into copies of the first page; each must be reported as its kind in every view.
--shots leaves PNGs of each view of each page. The last line is a JSON summary; exit 1 on any fault, 2 on bad usage or
without a browser.
"""

import argparse
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
         "--disable-sync", "--disable-background-networking", "--disable-component-update"]
# Intervals so short that all have charts over time; `stats` for a text.
BENCH = ["bench", "fillrandom", "readrandom", "ycsba", "stats", "--num", "200000", "--report-interval-ms", "20"]
# Small ones: what is looked at is how they show. Each makes the page that is named last.
PAGES = {
    "report": [*BENCH, "--trace", "trace", "--report"],
    "twin": ["twin", "trace", "--replayed", "20000", "--page"],
    "experiment": ["experiment", "run", "X-WL-6", "X-WL-7", "--scale", "0.05", "--report"],
}
VIEWS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
TIMEOUT = 60

SVG = '<svg width="100" height="100">%s</svg>'
LINE = '<path d="M0 0L9 9"/>'
# Kind of a fault, and what brings it about.
PLANTS = [
    ("network", '<img alt="" src="http://plant.invalid/x.png">'),
    ("network", '<link rel="stylesheet" href="other.css">'),
    ("console", "<script>throw new Error('planted')</script>"),
    ("console", "<script>setTimeout(() => nowhere(), 20)</script>"),
    ("console", "<script>console.error('planted')</script>"),
    ("width", '<div style="width:3000px">wide</div>'),
    ("spill", '<div style="width:60px;white-space:nowrap">more than there is room for</div>'),
    ("words", "<p>NaN ops/s</p>"),
    ("words", "<p>undefined</p>"),
    ("words", "<details><summary>more</summary>-Infinity</details>"),
    ("heading", "<h2> </h2>"),
    ("chart", SVG % ""),
    ("chart", '<svg style="height:0">%s</svg>' % LINE),
    ("chart", SVG % '<path d="M0 0LNaN 9"/>'),
    ("chart", SVG % (LINE + '<text x="-9" y="50">label</text>')),
    ("chart", SVG % (LINE + '<text y="50">a b</text><text y="52">c d</text>')),
    ("chart", SVG % (LINE + '<text class="tick" y="20">1 B</text><text class="tick" y="60">1 B</text>')),
    ("chart", '<canvas width="100" height="100"></canvas>'),
    ("small", '<p style="font-size:8px">small</p>'),
    ("contrast", '<p style="color:var(--card);background:var(--card)">hidden</p>'),
    ("contrast", '<p style="opacity:0.5" class="sub">pale</p>'),
    ("details", '<details><summary style="pointer-events:none">stuck</summary>x</details>'),
    ("details", "<details><summary>nothing in it</summary></details>"),
    ("link", '<a href="#nowhere">to nowhere</a>'),
    ("tooltip", SVG % '<rect class="hit" width="100" height="100"/>'),
    ("tooltip", "<style>.hit{pointer-events:none}</style>"),
    ("scheme", "<style>body{background:#888!important}</style>"),
]

# What the mouse does: kind, elements `e`, where in each it goes, clicks, what to remember as `was`, and what
# to say of it then, or nothing.
FOLD = ("details", "details", "e.querySelector('summary')", 1, "[e.open, e.offsetHeight]",
        """e.open === was[0] || Math.abs(e.offsetHeight - was[1]) < 8 ? `stays ${was[0] ? 'open' : 'closed'}, or is empty` : ''""")
USES = [
    ("link", "a", "e", 1, "(e.hash || e.removeAttribute('href'), document.getElementById(e.hash.slice(1)))",
     """!was ? 'is not on the page' : location.hash === e.hash && (Math.abs(was.getBoundingClientRect().top) < 2
        || root.scrollTop + root.clientHeight > root.scrollHeight - 2) ? '' : 'does not lead there'"""),
    ("tooltip", "svg", "hits[hits.length >> 1] ?? e", 0, "getComputedStyle(part).fill",
     r"""hits.some(h => !/\S\n.*\S/.test(h.textContent)) ? 'a column has no text'
        : hits.length && getComputedStyle(part).fill === was ? 'does not answer to the mouse' : ''"""),
    FOLD, FOLD, FOLD,
]

LOOK = r"""
(() => {
  const faults = [], root = document.documentElement, all = [...document.body.querySelectorAll('*')];
  const clip = s => s.trim().replace(/\s+/g, ' ').slice(0, 50);
  const name = e => `<${e.localName} class="${e.getAttribute('class') || ''}"> "${clip(e.textContent)}"`;
  const say = (kind, what) => faults.push(`${kind}: ${what}`);
  const box = e => e.getBoundingClientRect();
  const seen = e => e.checkVisibility({visibilityProperty: true});
  const scrolls = e => getComputedStyle(e).overflowX !== 'visible';

  // A bar to scroll with takes some of it.
  if (Math.abs(root.clientWidth - WIDTH + 10) > 10) say('width', `the page is laid out for ${root.clientWidth} px`);
  if (root.scrollWidth > root.clientWidth) {
    const out = all.filter(e => seen(e) && box(e).right > root.clientWidth + 1);
    say('width', `${root.scrollWidth} px are needed, as by ${out.slice(0, 3).map(name).join(', ') || 'unknown'}`);
  }
  for (const e of all.filter(e => e instanceof HTMLElement && seen(e) && e.clientWidth && !scrolls(e)))
    if (e.scrollWidth > e.clientWidth + 1 && e.localName !== 'body' && ![...e.children].some(c => box(c).right > box(e).right + 1))
      say('spill', `${name(e)} needs ${e.scrollWidth} px and has ${e.clientWidth}`);

  const heads = [...document.querySelectorAll('h1, h2, h3')], count = tag => heads.filter(h => h.localName === tag).length;
  if (count('h1') !== 1 || !count('h2')) say('heading', `${['h1', 'h2'].map(count)} of h1, h2`);
  for (const h of heads) if (!h.innerText.trim() || !box(h).height) say('heading', `${name(h)} is empty`);

  const charts = [...document.querySelectorAll('svg, canvas')].filter(c => c.parentElement.checkVisibility());
  if (!charts.length) say('chart', 'there is none');
  for (const c of charts) {
    const at = box(c), what = `"${c.getAttribute('aria-label') || c.localName}"`;
    if (!(at.width > 1 && at.height > 1)) say('chart', `${what} has no size: ${at.width} by ${at.height}`);
    if (c.localName === 'canvas') {
      const pixels = c.width && c.height ? c.getContext('2d')?.getImageData(0, 0, c.width, c.height).data ?? [1] : [];
      if (!pixels.some(v => v)) say('chart', `${what} is empty`);
      continue;
    }
    const shapes = [...c.querySelectorAll('path, line, rect, circle, polyline, polygon')].filter(s => !s.matches('.hit'));
    if (!shapes.some(s => s.getBBox().width + s.getBBox().height > 1)) say('chart', `${what} has no shapes`);
    for (const s of c.querySelectorAll('*')) for (const a of s.attributes)
      if (/NaN|inf|undefined/i.test(a.value) && a.name !== 'class') say('chart', `${what} has ${a.name}="${clip(a.value)}"`);
    const texts = [...c.querySelectorAll('text')].map(t => [clip(t.textContent), box(t)]);
    const ticks = [...c.querySelectorAll('.tick')].map(t => `${t.getAttribute('x')} ${t.textContent}`);
    ticks.filter((t, i) => ticks.indexOf(t) < i).forEach(t => say('chart', `${what}: two marks at ${t}`));
    texts.forEach(([a, p], i) => {
      if (p.left < at.left - 1 || p.right > at.right + 1 || p.top < at.top - 1 || p.bottom > at.bottom + 1)
        say('chart', `${what}: "${a}" is cut off`);
      for (const [b, q] of texts.slice(i + 1))
        if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4)
          say('chart', `${what}: "${a}" and "${b}" overlap`);
    });
  }

  const pen = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].map(v => v / 255);
  };
  const over = (top, a, below) => below.map((b, i) => top[i] * a + b * (1 - a));
  const light = c => c.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    if (!e) return SCHEME === 'dark' ? [0, 0, 0] : [1, 1, 1];
    const [r, g, b, a] = rgba(getComputedStyle(e).backgroundColor);
    return a === 1 ? [r, g, b] : over([r, g, b], a, behind(e.parentElement));
  };
  let least = 21, smallest = 99;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = clip(walk.currentNode.data), e = walk.currentNode.parentElement, style = getComputedStyle(e);
    if (!text || ['script', 'style'].includes(e.localName)) continue;
    const word = walk.currentNode.data.match(/.{0,20}(NaN|undefined|Infinity|(?<!\w)inf(?!\w)).{0,20}/);
    if (word) say('words', `"${word[0].trim()}" in ${name(e.closest('svg') ? e : e.parentElement)}`);
    if (!seen(e) || e.localName === 'title') continue;
    const svg = e instanceof SVGElement, px = parseFloat(style.fontSize) * (svg ? e.getScreenCTM().a : 1);
    let [r, g, b, a] = rgba(svg ? style.fill : style.color);
    for (let p = e; p; p = p.parentElement) a *= getComputedStyle(p).opacity;
    const back = behind(e), [x, y] = [light(over([r, g, b], a, back)), light(back)];
    const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    [least, smallest] = [Math.min(least, contrast), Math.min(smallest, px)];
    if (px < 9) say('small', `"${text}" has ${px.toFixed(1)} px`);
    if (contrast < 4.5) say('contrast', `"${text}" has ${contrast.toFixed(2)}:1`);
  }
  return {faults, charts: charts.length, least, smallest, paper: light(behind(document.body))};
})()
"""


class Browser:
    """Chromium at the other end of two pipes: JSON with a NUL behind it, replies among events."""

    def __init__(self, path, profile):
        # Above the numbers that the browser's ends get.
        low = [*os.pipe(), *os.pipe()]
        its_in, self.out, self.into, its_out = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low]
        files = [(os.POSIX_SPAWN_DUP2, its_in, 3), (os.POSIX_SPAWN_DUP2, its_out, 4)]
        files += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        words = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.pid = os.posix_spawn(path, words, os.environ, file_actions=files, setpgroup=0)
        for fd in (*low, its_in, its_out):
            os.close(fd)
        self.number, self.left, self.session, self.events = 0, b"", None, []

    def message(self, until):
        while b"\0" not in self.left:
            ready = select.select([self.into], [], [], max(0, until - time.monotonic()))[0]
            data = os.read(self.into, 1 << 20) if ready else b""
            if not data:
                raise SystemExit(f"report_page: the browser {'ended' if ready else 'does not answer'}")
            self.left += data
        one, self.left = self.left.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        text = {"id": self.number, "method": method, "params": params}
        text = json.dumps(text | ({"sessionId": self.session} if self.session else {})).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        until = time.monotonic() + TIMEOUT
        while (reply := self.message(until)).get("id") != self.number:
            self.events.append(reply)
        if "error" in reply:
            raise SystemExit(f"report_page: {method}: {reply['error']}")
        return reply["result"]

    def js(self, text):
        out = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in out:
            raise SystemExit(f"report_page: {out['exceptionDetails']}")
        return out["result"].get("value")

    def mouse(self, x, y, clicks):
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"][:1 + 2 * clicks]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if clicks else "none", clickCount=clicks)

    def open(self, url, width, scheme):
        """A new tab with the page, its events recorded from the start."""
        self.session = None
        self.target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events = []
        self.call("Page.navigate", url=url)
        until = time.monotonic() + TIMEOUT
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message(until))

    def shot(self, file):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=size | {"x": 0, "y": 0, "scale": 1})["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(data))

    def close(self):
        self.call("Target.closeTarget", targetId=self.target)
        self.session = None

    def kill(self):
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def reported(events, url):
    """Faults among what the browser said by itself."""
    for event in events:
        method, of = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield "console: " + of["exceptionDetails"].get("exception", {}).get("description", "exception").splitlines()[0]
        elif method == "Runtime.consoleAPICalled" and of["type"] in ("error", "assert", "warning"):
            yield f"console: {[a.get('value', a.get('description')) for a in of['args']]}"
        elif method == "Log.entryAdded" and of["entry"]["level"] in ("error", "warning"):
            yield f"console: {of['entry']['text']}"
        elif method == "Network.requestWillBeSent" and of["request"]["url"] != url:
            yield f"network: {of['request']['method']} {of['request']['url']}"
        elif method == "Network.webSocketCreated":
            yield f"network: {of['url']}"


def use(browser):
    """Faults of what answers to the mouse; leaves all details open."""
    for kind, css, part, clicks, keep, wrong in USES:
        for n in range(browser.js(f"document.querySelectorAll('{css}').length")):
            def ask(body):
                return browser.js(f"""(async e => {{
                    const root = document.documentElement, hits = [...e.querySelectorAll('.hit')], part = {part};
                    const drawn = () => new Promise(requestAnimationFrame);
                    {body} }})(document.querySelectorAll('{css}')[{n}])""")
            browser.mouse(*ask(f"""window.was = {keep}; part.scrollIntoView({{block: 'center', inline: 'center'}});
                await drawn(); const b = part.getClientRects()[0]; return [b.left + b.width / 2, b.top + b.height / 2];"""), clicks)
            what, fault = ask(f"await drawn(); return [e.ariaLabel ?? e.hash ?? part.textContent, {wrong}];")
            if fault:
                yield f'{kind}: "{what}" {fault}'


def look(browser, page, shots=None):
    """Faults of a page, each with where it shows, and figures."""
    url, out, papers = page.resolve().as_uri(), [], {}
    figures = {"charts": 0, "contrast_min": 21, "text_px_min": 99}
    for width, scheme in VIEWS:
        browser.open(url, width, scheme)
        script = LOOK.replace("WIDTH", str(width)).replace("SCHEME", json.dumps(scheme))
        faults = []
        for state in ("closed", "open"):
            seen = browser.js(script)
            faults += seen["faults"]
            figures["charts"] = max(figures["charts"], seen["charts"])
            figures["contrast_min"] = round(min(figures["contrast_min"], seen["least"]), 2)
            figures["text_px_min"] = round(min(figures["text_px_min"], seen["smallest"]), 1)
            papers[width, scheme] = seen["paper"]
            if shots:
                browser.shot(shots / f"{width}-{scheme}-{state}.png")
            if state == "closed":
                faults += use(browser)
        if scheme == "dark" and papers[width, "light"] - papers[width, "dark"] < 0.2:
            faults.append("scheme: the page is as light as in light")
        # What fails late has its time.
        browser.js("new Promise(r => setTimeout(r, 100))")
        faults += reported(browser.events, url)
        browser.close()
        out += [(width, scheme, fault) for fault in dict.fromkeys(faults)]
    return out, figures


def main():
    parser = argparse.ArgumentParser(description="Looks at the pages that spanlith makes in a real browser.")
    parser.add_argument("spanlith", nargs="?", metavar="SPANLITH", type=pathlib.Path)
    parser.add_argument("--page", metavar="FILE", type=pathlib.Path, help="a page that there is already")
    parser.add_argument("--browser", metavar="PATH", help="Chromium, if it is not on the path")
    parser.add_argument("--shots", metavar="DIR", type=pathlib.Path, help="leaves a PNG of each view here")
    parser.add_argument("--self-test", action="store_true", help="plants faults and demands that each is reported")
    args = parser.parse_args()
    if bool(args.spanlith) == bool(args.page):
        parser.error("either SPANLITH or --page is needed")
    for file in filter(None, (args.spanlith, args.page)):
        if not file.is_file():
            parser.error(f"{file}: no such file")
    names = [args.browser] if args.browser else BROWSERS
    program = next(filter(None, map(shutil.which, names)), None)
    if not program:
        parser.error(f"no browser: none of {', '.join(names)} is there. Debian has it as package `chromium` "
                     "(apt-get install chromium); one elsewhere is named by --browser")
    with tempfile.TemporaryDirectory(prefix="report-page-", ignore_cleanup_errors=True) as temp:
        temp = pathlib.Path(temp)
        pages = [args.page] if args.page else [temp / f"{name}.html" for name in PAGES]
        for page in [] if args.page else pages:
            subprocess.run([args.spanlith.resolve(), *PAGES[page.stem], page], cwd=temp, check=True, stdout=subprocess.DEVNULL)
        browser = Browser(program, temp / "profile")
        try:
            all_faults, all_figures = {}, {}
            for page in pages:
                shots = args.shots and args.shots / page.stem
                if shots:
                    shots.mkdir(parents=True, exist_ok=True)
                all_faults[page], all_figures[page] = look(browser, page, shots)
                for width, scheme, fault in all_faults[page]:
                    print(f"{page.stem}, {width} px, {scheme}: {fault}", flush=True)
            page, missed = pages[0], []
            faults = all_faults[page]
            for number, (kind, plant) in enumerate(PLANTS if args.self_test else []):
                copy = temp / f"plant-{number}.html"
                copy.write_text(page.read_text(encoding="utf-8").replace("</main>", plant + "</main>", 1), encoding="utf-8")
                views = {f[:2] for f in look(browser, copy)[0] if f not in faults and f[2].startswith(kind + ":")}
                want = {v for v in VIEWS if kind != "scheme" or v[1] == "dark"}
                print(f"plant {number}: {kind}: {'reported' if views >= want else 'MISSED'}: {plant}", flush=True)
                missed += [number] if not views >= want else []
        finally:
            browser.kill()
    of = all_figures.values()
    summary = {"pages": len(pages), "views": len(VIEWS), "charts": sum(f["charts"] for f in of)}
    summary |= {name: min(f[name] for f in of) for name in ("contrast_min", "text_px_min")}
    summary["faults"] = faults = sum(map(len, all_faults.values()))
    summary |= {"plants": len(PLANTS), "missed": len(missed)} if args.self_test else {}
    print(json.dumps(summary))
    return 1 if faults or missed else 0


if __name__ == "__main__":
    sys.exit(main())
