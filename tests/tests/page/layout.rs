//! The page on telephones, in the dark, by keyboard and for screen readers.

use crate::browser::{Page, open};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weft_tests::watched::Watched;

const TAB: u32 = 9;
const ENTER: u32 = 13;

/// A server whose page has something in every section.
fn busy() -> Watched {
    let watched = Watched::start(&[
        "--cluster-enabled",
        "yes",
        "--io-threads",
        "2",
        "--slowlog-log-slower-than",
        "0",
        "--appendonly",
        "yes",
    ]);
    let mut client = watched.server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    client.ok(&["CLIENT", "SETNAME", &"n".repeat(300)]);
    for n in 0..20 {
        client.ok(&["SET", &format!("{}:{n}", "long-key".repeat(30)), "x"]);
    }
    // It stays connected until the server ends.
    std::mem::forget(client);
    watched
}

#[test]
fn nothing_is_wider_than_a_telephone() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    page.until("document.querySelectorAll('#client-table tbody tr').length > 0");
    for width in [320, 390, 768, 901, 1280] {
        page.resize(width);
        page.until(&format!("innerWidth === {width}"));
        // Charts follow the width of their place in the next frame.
        page.next_reading();
        assert_eq!(
            page.number("document.documentElement.scrollWidth"),
            f64::from(width),
            "{width}"
        );
        let outside = "[...document.querySelectorAll('main *, header *, footer *')].filter(e => {
            const box = e.getBoundingClientRect();
            return box.width > 0 && getComputedStyle(e.closest('thead') ?? e).position !== 'absolute'
                && (box.right > innerWidth + 0.5 || box.left < -0.5);
        }).map(e => e.outerHTML.slice(0, 100))";
        let outside = page.js(outside);
        assert_eq!(outside, json!([]), "{width}");
    }
}

/// The least contrast of texts with their background, and the colour of the page.
fn contrast(page: &mut Page) -> (f64, String, String) {
    let script = "(() => {
        const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
        const luminance = rgb => {
            const [r, g, b] = rgb.map(n => n / 255).map(n => n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const backdrop = element => {
            for (let e = element; e; e = e.parentElement) {
                const colour = parse(getComputedStyle(e).backgroundColor);
                if (colour.length === 3) return colour;
            }
            return [255, 255, 255];
        };
        let worst = [99, ''];
        for (const e of document.querySelectorAll('body *')) {
            const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
            if (!own || e.getClientRects().length === 0) continue;
            const style = getComputedStyle(e);
            const text = parse(e instanceof SVGElement ? style.fill : style.color).slice(0, 3);
            const [a, b] = [luminance(text), luminance(backdrop(e))].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 120)];
        }
        return [...worst, getComputedStyle(document.documentElement).backgroundColor];
    })()";
    serde_json::from_value(page.js(script)).expect("three values")
}

#[test]
fn dark_and_light_have_contrast() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    page.until("document.querySelectorAll('#client-table tbody tr').length > 0");
    let mut pages = BTreeSet::new();
    for scheme in ["light", "dark"] {
        page.prefer("prefers-color-scheme", scheme);
        page.until(&format!("matchMedia('(prefers-color-scheme: {scheme})').matches"));
        let (least, element, background) = contrast(&mut page);
        assert!(least >= 4.5, "{scheme}: {least:.2} of {element}");
        pages.insert(background);
    }
    assert_eq!(pages.len(), 2, "the colours differ");
}

#[test]
fn motion_stops_where_users_ask_for_it() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    let moving = "[...document.querySelectorAll('*')].filter(e => {
        const style = getComputedStyle(e);
        return style.transitionDuration.split(', ').some(t => parseFloat(t) > 0)
            || style.animationName !== 'none' || style.scrollBehavior === 'smooth';
    }).length";
    page.prefer("prefers-reduced-motion", "no-preference");
    page.until(&format!("{moving} > 0"));
    page.prefer("prefers-reduced-motion", "reduce");
    page.until(&format!("{moving} === 0"));
}

#[test]
fn keyboard_reaches_everything_and_leaves_it_again() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    page.press("Tab", TAB, 0);
    assert_eq!(page.text("document.activeElement.className"), "skip");
    page.until("document.activeElement.getBoundingClientRect().top >= 0");
    // Everything that can be focused is, in the order of the document, and its focus is visible.
    let all = "[...document.querySelectorAll('a[href], button, [tabindex=\"0\"]')].filter(e => e.getClientRects().length > 0)";
    let count = page.number(&format!("{all}.length"));
    assert!(count > 20.0, "{count}");
    for at in 0..count as usize {
        let is_next = format!("document.activeElement === {all}[{at}]");
        assert_eq!(
            page.js(&is_next),
            true,
            "element {at}: {}",
            page.js("document.activeElement.outerHTML")
        );
        let outline = page.text("getComputedStyle(document.activeElement).outlineStyle");
        assert_ne!(outline, "none", "{}", page.js("document.activeElement.outerHTML"));
        page.press("Tab", TAB, 0);
    }
    assert_eq!(page.js(&format!("{all}.includes(document.activeElement)")), false, "a trap");
    // Each section has a link, which moves the focus to it.
    let sections = page.js("[...document.querySelectorAll('main section')].map(s => s.id)");
    let links = page
        .js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href').slice(1))");
    assert_eq!(sections, links);
    for id in sections.as_array().expect("sections").iter().filter_map(Value::as_str) {
        page.js(&format!("document.querySelector('nav a[href=\"#{id}\"]').focus()"));
        page.press("Enter", ENTER, 0);
        page.until(&format!("location.hash === '#{id}'"));
        page.press("Tab", TAB, 0);
        let follows = format!(
            "document.getElementById('{id}').compareDocumentPosition(document.activeElement) & (Node.DOCUMENT_POSITION_FOLLOWING | Node.DOCUMENT_POSITION_CONTAINED_BY)"
        );
        assert!(page.number(&follows) > 0.0, "Tab continues after the heading of {id}");
    }
}

#[test]
fn charts_are_read_by_arrow_keys() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    page.until(
        "document.querySelector('#chart-rate .plot path.line').getAttribute('d').includes('L')",
    );
    page.js("document.querySelector('#chart-rate .plot').focus()");
    page.press("ArrowLeft", 37, 0);
    page.until("document.querySelector('#chart-rate .cursor').childElementCount > 0");
    page.until("/\\d+ s ago/.test(document.querySelector('#chart-rate .when').textContent)");
    page.press("Escape", 27, 0);
    page.until("document.querySelector('#chart-rate .cursor').childElementCount === 0");
}

#[test]
fn all_parts_have_names_for_screen_readers() {
    let watched = busy();
    let Some(mut page) = open(&watched) else { return };
    page.until("document.querySelectorAll('#client-table tbody tr').length > 0");
    page.call("Accessibility.enable", json!({}));
    let tree = page.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    let mut roles: Vec<&str> = Vec::new();
    for node in nodes.iter().filter(|node| node["ignored"] == false) {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        roles.push(role);
        let needs_name =
            ["link", "button", "image", "table", "columnheader", "heading", "navigation", "figure"];
        if needs_name.contains(&role) {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            assert!(!name.trim().is_empty(), "a {role} without a name: {node}");
        }
    }
    for role in
        ["banner", "navigation", "main", "contentinfo", "table", "rowheader", "image", "button"]
    {
        assert!(roles.contains(&role), "no {role}");
    }
    assert_eq!(page.text("document.documentElement.lang"), "en");
    let levels = page.js("[...document.querySelectorAll('h1, h2, h3')].filter(h => h.getClientRects().length).map(h => Number(h.tagName[1]))");
    let levels: Vec<i64> = serde_json::from_value(levels).expect("numbers");
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    let ids = "[...document.querySelectorAll('[id]')].map(e => e.id)";
    assert_eq!(page.js(&format!("{ids}.length === new Set({ids}).size")), true, "ids are unique");
}
