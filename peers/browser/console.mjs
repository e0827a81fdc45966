// Uses the page of a console as a person does, in headless Chromium, and prints one line of JSON: the problems it found.
//
//   node console.mjs live URL       every view of a running server with the upstream `everything`
//   node console.mjs recording URL  a recording with hostile texts in every field
//
// Any error on the console of the browser, request to another server, serious finding of axe, or page that is wider than
// its window is a problem. GLADHAND_PEERS is the folder of the peers.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const peers = process.env.GLADHAND_PEERS;
const require = createRequire(`${peers}/browser/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [mode, address] = process.argv.slice(2);
const origin = new URL(address).origin;
const problems = [];

/** Longer than anything takes on a busy machine. */
const PATIENCE = 60_000;

function expect(isSo, what) {
  if (!isSo) problems.push(what);
}

async function open(browser, [width, height], colorScheme) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "no-preference" });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(`${origin}/`) || request.url().startsWith("data:");
    expect(isOwn, `request to ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForSelector("#views a");
  expect(!page.url().includes("token="), "the token stays in the address");
  return page;
}

/** Looks for findings of axe, and for a page that is wider than its window. */
async function check(page, name) {
  const found = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const { violations } = await window.axe.run();
    const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
    return serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" ")}`);
  }, axe);
  problems.push(...found.map((one) => `${name}: axe ${one}`));
  const { scrollWidth, clientWidth } = await page.evaluate(() => document.documentElement);
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1);
  expect(!isWide, `${name} is wider than its window ${scrollWidth} ${clientWidth}`);
}

const view = (page, id) => page.evaluate((hash) => { location.hash = hash; }, `#${id}`);
const text = (page, selector) => page.locator(selector).first().innerText();

/** Selects a tool, resource or prompt by its text in the list. */
async function pick(page, search, kind = "Tools") {
  await page.locator(`[aria-label=Kind] button`, { hasText: kind }).click();
  await page.fill("input[type=search]", search);
  await page.locator(".list button").first().click();
}

const call = (page, label = "Call") => page.locator("form button.main", { hasText: label }).click();
const answered = (page, part) => page.locator("#answer", { hasText: part }).waitFor();

async function tryIt(page) {
  await view(page, "try");
  await page.waitForSelector(".list button");
  await pick(page, "everything__echo");
  await page.fill("[data-name=message]", "hello from the page <b>not bold</b>");
  await call(page);
  await answered(page, "hello from the page <b>not bold</b>");
  await page.fill("[data-name=message]", "the secret word");
  await call(page);
  await answered(page, "no-secrets");
  await pick(page, "get-sum");
  await call(page);
  await answered(page, "a: a value is required");
  await page.fill("[data-name=a]", "2");
  await page.fill("[data-name=b]", "3");
  await call(page);
  await answered(page, "is 5");
  await pick(page, "tiny-image");
  await call(page);
  await page.waitForSelector("#answer img");
  const isShown = await page.locator("#answer img").first().evaluate(async (image) => (await image.decode(), image.naturalWidth > 0));
  expect(isShown, "the image of the result is not shown");
  await pick(page, "structured");
  await page.locator("[data-name=location]").selectOption({ index: 1 });
  await call(page);
  await answered(page, "Structured content");
  await pick(page, "resource-link");
  await call(page);
  await page.locator("#answer button", { hasText: "Open" }).first().click();
  await page.waitForSelector("#answer .content");
  await pick(page, "long-running");
  await page.fill("[data-name=duration]", "2");
  await page.fill("[data-name=steps]", "4");
  await call(page);
  await page.waitForFunction(() => document.querySelector("#answer progress")?.value >= 1);
  await answered(page, "Answered in");
  await page.fill("[data-name=duration]", "60");
  await call(page);
  await page.locator("#answer button", { hasText: "Cancel" }).click();
  await answered(page, "cancelled");
  await pick(page, "elicitation-request");
  await call(page);
  await page.waitForSelector("dialog");
  await check(page, "question");
  await page.fill("dialog [data-name=name]", "Ada");
  await page.locator("dialog button", { hasText: "Accept" }).click();
  await answered(page, "Ada");
  await pick(page, "sampling-request");
  await page.fill("[data-name=prompt]", "What is a gladhand?");
  await call(page);
  await page.fill("dialog textarea", "A coupling for air brakes.");
  await page.locator("dialog button", { hasText: "Answer" }).click();
  await answered(page, "A coupling for air brakes.");
  await pick(page, "complet", "Prompts");
  await page.locator("form input[list]").first().fill("");
  await page.locator("form input[list]").first().focus();
  await page.waitForFunction(() => document.querySelectorAll("form datalist option").length > 0);
  await page.fill("input[type=search]", "");
  await page.locator(".list button").first().click();
  await page.locator("[aria-label=Kind] button", { hasText: "Resources" }).click();
  await page.locator(".list button").first().click();
  await call(page, "Read");
  await page.waitForSelector("#answer .content");
}

async function live(page) {
  await view(page, "live");
  await page.locator("#traffic tr", { hasText: "get-sum" }).first().waitFor();
  await page.locator("#sessions tr", { hasText: "gladhand-console" }).first().waitFor();
  const upstreams = page.locator("section[aria-label=Upstreams]");
  expect(/everything[\s\S]*open/.test(await upstreams.innerText()), "the open upstream is not shown");
  expect(/broken[\s\S]*failed[\s\S]*no database/.test(await upstreams.innerText()), "the last words of an upstream are not shown");
  await page.fill("input[type=search]", "get-sum");
  expect((await page.locator("#traffic tbody tr").count()) === 1, "the search does not filter");
  await page.locator("#traffic tbody button").first().click();
  await page.waitForSelector("#call .path");
  const path = await text(page, "#call");
  for (const part of ["The client asks", "Allowed: everything__get-sum is get-sum of everything", "The upstream is asked", "The upstream answers", "The client is answered"]) {
    expect(path.includes(part), `the path of a call has no "${part}"`);
  }
  expect((await page.locator("#call .is-none").count()) === 0, "a message of the path is missing");
  await page.locator("#call summary").first().click();
  expect((await text(page, "#call .code")).includes('"tools/call"'), "the message of the path is not shown");
  await page.fill("input[type=search]", "");
  await page.locator("button", { hasText: "pause" }).click();
  const paused = await page.locator("#traffic tbody tr").count();
  await page.locator("button", { hasText: "errors only" }).click();
  expect((await page.locator("#traffic tbody tr").count()) < paused, "the errors are not filtered");
  await page.locator("button", { hasText: "errors only" }).click();
  await page.locator("button", { hasText: "pause" }).click();
  await page.locator("[aria-label=Rows] button", { hasText: "messages" }).click();
  await page.locator("#traffic tr", { hasText: "tools/list" }).first().waitFor();
  await page.locator("[aria-label=Rows] button", { hasText: "calls" }).click();
}

async function handshake(page) {
  await view(page, "sessions");
  await page.locator(".list button", { hasText: "gladhand-console" }).first().click();
  await page.locator("#sequence h2", { hasText: "gladhand-console" }).waitFor();
  await page.locator("#agreement td", { hasText: "in force" }).first().waitFor();
  const arrows = page.locator(".arrows > li");
  await page.waitForFunction(() => document.querySelectorAll(".arrows > li").length > 3);
  const all = await arrows.count();
  await arrows.first().locator("button.arrow").click();
  expect((await text(page, ".arrows .code")).includes("clientInfo"), "a message does not open");
  await page.locator("#agreement summary").first().click();
  expect((await text(page, "#agreement .code")).includes("error"), "the error of a closed request is not shown");
  await page.locator("button", { hasText: "Play" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".arrows > li").length === 2);
  await page.locator("button", { hasText: "Pause" }).click();
  await page.locator("input[type=range]").fill(String(Math.min(all, 5)));
  expect((await arrows.count()) === Math.min(all, 5), "the position of the player has no effect");
}

async function explorer(page) {
  await view(page, "explorer");
  await page.waitForSelector("#explored table");
  const tools = page.locator("fieldset", { hasText: "Server declares" }).locator("label", { hasText: /^tools$/ }).locator("input");
  const row = page.locator("#explored tbody tr", { hasText: /^tools server/ });
  await row.waitFor();
  await tools.uncheck();
  await row.waitFor({ state: "detached" });
  await page.locator("#explored summary", { hasText: "tools/call" }).waitFor();
  await tools.check();
  await row.waitFor();
  await page.waitForSelector(".diff ins");
  for (const dialect of ["a2e", "loaf", "fluxloop", "mcp"]) {
    await page.locator("select").first().selectOption(dialect);
    await page.locator("#explored h2", { hasText: dialect }).waitFor();
  }
}

async function policy(page) {
  await view(page, "policy");
  await page.locator("#waiting", { hasText: "No pinned tool" }).waitFor();
  await page.locator("#refused", { hasText: "no-secrets refused 1" }).waitFor();
}

const keyboard = async (page) => {
  await view(page, "live");
  await page.waitForSelector("#traffic");
  await page.keyboard.press("5");
  await page.waitForSelector("#explored");
  await page.keyboard.press("1");
  await page.waitForSelector("#traffic");
  await page.keyboard.press("/");
  expect(await page.evaluate(() => document.activeElement.type === "search"), "the key / does not go to the search");
};

async function runLive(browser) {
  const page = await open(browser, [1280, 900], "light");
  await tryIt(page);
  await live(page);
  await handshake(page);
  await policy(page);
  await explorer(page);
  await keyboard(page);
  for (const [size, scheme] of [[[1280, 900], "light"], [[360, 740], "dark"], [[3840, 2160], "dark"], [[360, 740], "light"]]) {
    const other = await open(browser, size, scheme);
    for (const [id, ready] of [["live", "#sessions a"], ["sessions", "#agreement table"], ["try", ".list button"], ["policy", "#refused summary"], ["explorer", "#explored table"]]) {
      await view(other, id);
      await other.waitForSelector(ready);
      await check(other, `${id} at ${size[0]} px, ${scheme}`);
    }
    await other.context().close();
  }
}

async function runRecording(browser) {
  const page = await open(browser, [1280, 900], "light");
  await page.waitForSelector(".arrows li");
  expect((await page.locator("#views a").allInnerTexts()).join() === "Handshake,Explorer", "a recording has other views");
  for (const button of await page.locator(".list button").all()) {
    await button.click();
    await page.waitForSelector(".arrows li");
    for (const arrow of await page.locator("button.arrow").all()) await arrow.click();
    await page.waitForFunction(() => !document.querySelector("#agreement").innerText.includes("Loading"));
    await check(page, "recording");
  }
  const injected = await page.evaluate(() => ({
    marked: window.marked,
    elements: document.querySelectorAll("main img, main script, main iframe, main [onerror], main b, main style, main [style]").length,
    links: [...document.querySelectorAll("a")].map((link) => link.protocol).filter((protocol) => protocol !== location.protocol),
    hidden: /[\u0000-\u0008\u001b\u202a-\u202e\u200b]/.test(document.body.innerText),
  }));
  expect(JSON.stringify(injected) === '{"elements":0,"links":[],"hidden":false}', `hostile text had an effect: ${JSON.stringify(injected)}`);
  expect((await page.locator("main").innerText()).includes("<img src=x onerror"), "hostile text is not shown as it is");
}

const program = `${peers}/bin/chromium`;
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
try {
  await (mode === "live" ? runLive(browser) : runRecording(browser));
} catch (error) {
  problems.push(error.stack);
}
await browser.close();
console.log(JSON.stringify({ problems }));
