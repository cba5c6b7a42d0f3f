// A report is readable in a real browser: every plot is drawn, nothing overflows, nothing complains, nothing is fetched.

import { accessSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const WIDTHS = [400, 1400];
// Smaller letters cannot be read on a phone.
const LETTERS_MIN = 10;

function browser() {
    const named = process.env.CHROMIUM;
    const places = (process.env.PATH ?? '').split(':').map((folder) => `${folder}/chromium-headless-shell`);
    return [named, ...places, '/usr/bin/chromium-headless-shell'].filter(Boolean).find((file) => {
        try { accessSync(file); return true; } catch { return false; }
    });
}

// Runs in the page.
function look() {
    const visible = [...document.querySelectorAll('figure svg')].filter((plot) => plot.getClientRects().length > 0);
    const text = (plot) => [...plot.querySelectorAll('text')];
    return {
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        figures: document.querySelectorAll('figure').length,
        plots: visible.map((plot) => {
            const box = plot.getBoundingClientRect();
            const scale = box.width / plot.viewBox.baseVal.width;
            return {
                title: plot.closest('figure').getAttribute('aria-label'),
                left: box.left,
                right: box.right,
                // What is drawn for measurements: dots, or bars beyond the background.
                marks: plot.querySelectorAll('circle').length + Math.max(0, plot.querySelectorAll('rect').length - 1),
                letters: Math.min(...text(plot).map((label) => parseFloat(getComputedStyle(label).fontSize) * scale)),
                outside: text(plot).filter((label) => {
                    const inner = label.getBoundingClientRect();
                    return inner.left < box.left - 1 || inner.right > box.right + 1;
                }).map((label) => label.textContent.trim()),
            };
        }),
        verdicts: [...document.querySelectorAll('.verdict strong')].map((verdict) => verdict.textContent.trim()),
        body: parseFloat(getComputedStyle(document.body).fontSize),
    };
}

async function check(chrome, file, width) {
    const faults = [];
    const page = await chrome.newPage({ viewport: { width, height: 800 } });
    page.on('console', (message) => message.type() === 'error' && faults.push(`console: ${message.text()}`));
    page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
    page.on('request', (request) => request.url().startsWith('file:') || faults.push(`fetches ${request.url()}`));
    await page.goto(pathToFileURL(file).href);
    const seen = await page.evaluate(look);
    if (seen.overflow > 0) faults.push(`overflows by ${seen.overflow} pixels`);
    if (seen.figures === 0) faults.push('has no plot');
    if (seen.plots.length !== seen.figures) faults.push(`shows ${seen.plots.length} of ${seen.figures} plots`);
    for (const plot of seen.plots) {
        if (plot.marks < 2) faults.push(`"${plot.title}" shows ${plot.marks} measurements`);
        if (plot.left < 0 || plot.right > width) faults.push(`"${plot.title}" is cut off`);
        if (plot.letters < LETTERS_MIN) faults.push(`"${plot.title}" has letters of ${plot.letters} pixels`);
        if (plot.outside.length > 0) faults.push(`"${plot.title}" cuts off: ${plot.outside.join(', ')}`);
    }
    if (seen.verdicts.some((verdict) => verdict === '')) faults.push('has an experiment without a verdict');
    if (seen.body < 16) faults.push(`has letters of ${seen.body} pixels`);
    await page.close();
    console.log(`${file} at ${width} pixels: ${seen.plots.length} plots, ${seen.verdicts.length} verdicts, ${faults.length} faults`);
    return faults;
}

const chrome = await chromium.launch({ executablePath: browser(), args: ['--no-sandbox'] });
const faults = [];
for (const file of process.argv.slice(2)) {
    for (const width of WIDTHS) faults.push(...await check(chrome, file, width));
}
await chrome.close();
faults.forEach((fault) => console.error(fault));
process.exitCode = faults.length > 0 || process.argv.length < 3 ? 1 : 0;
