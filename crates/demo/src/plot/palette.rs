//! Colours of runs and stages, for a light and a dark background; the page and SVG files share them.
//!
//! A run's colour is `index % RUNS.len()`; from the second round on its line is dashed.

use super::charts::{Chart, Kind};

/// A colour on a light and on a dark background.
type Pair = (&'static str, &'static str);

/// Colours of runs and groups of runs.
const RUNS: [Pair; 8] = [
    ("#2f6fde", "#7aa8ff"),
    ("#d9622b", "#ff9a66"),
    ("#0f9d8a", "#45d3bd"),
    ("#a83ac2", "#dd8cf0"),
    ("#b07d05", "#e6bf4a"),
    ("#d3355b", "#ff7d96"),
    ("#5a6b7f", "#a9b8c9"),
    ("#5c9e1f", "#a4d65e"),
];

/// Stages, in the order of `charts::stages`: reading, checking, connecting, writing, the rest.
const STAGES: [Pair; 10] = [
    ("#7f8fa6", "#8c9bb0"),
    ("#69b3d8", "#6fb8dc"),
    ("#3f86d6", "#5a9ae6"),
    ("#5a5fd0", "#7f84ee"),
    ("#9a48bd", "#b96ddb"),
    ("#d15284", "#e4709c"),
    ("#e2803f", "#f0975a"),
    ("#e3b341", "#ecc662"),
    ("#7fb04c", "#97c966"),
    ("#c2c6cc", "#5b626b"),
];

/// The class of a chart's colour, `c3` or `s3`.
pub(super) fn class(chart: &Chart, color: usize) -> String {
    class_of(chart.kind == Kind::Stack, color)
}

/// The class of a stage's or a run's colour.
fn class_of(is_stage: bool, color: usize) -> String {
    if is_stage { format!("s{}", color % STAGES.len()) } else { format!("c{}", color % RUNS.len()) }
}

/// Whether all colours are already in use.
pub(super) fn dashed(chart: &Chart, color: usize) -> bool {
    is_dashed(chart.kind == Kind::Stack, color)
}

fn is_dashed(is_stage: bool, color: usize) -> bool {
    !is_stage && (color / RUNS.len()) % 2 == 1
}

/// The classes of a name with its colour before it.
pub(super) fn chip(is_stage: bool, color: usize) -> String {
    let dash = if is_dashed(is_stage, color) { " dash" } else { "" };
    format!("chip {}{dash}", class_of(is_stage, color))
}

fn all() -> impl Iterator<Item = (String, Pair)> {
    let runs = RUNS.into_iter().enumerate().map(|(at, pair)| (format!("c{at}"), pair));
    runs.chain(STAGES.into_iter().enumerate().map(|(at, pair)| (format!("s{at}"), pair)))
}

/// The page's rules: a variable and a class for each colour.
pub(super) fn page_css() -> String {
    let list = |pick: fn(Pair) -> &'static str| {
        all().map(|(name, pair)| format!("--{name}:{};", pick(pair))).collect::<String>()
    };
    let classes: String =
        all().map(|(name, _)| format!(".{name}{{--chip:var(--{name});color:var(--{name})}}")).collect();
    let text = ".chip{color:inherit}svg .t{fill:var(--ink)}svg .m{fill:var(--muted)}svg .g{stroke:var(--grid)}svg .r{stroke:var(--muted)}svg .w{stroke:var(--ink)}svg .b{fill:none}svg .k{stroke:var(--card)}";
    format!(
        ":root{{{}}}@media (prefers-color-scheme:dark){{:root{{{}}}}}{classes}{text}\n",
        list(|pair| pair.0),
        list(|pair| pair.1)
    )
}

/// The rules of a separate SVG file: explicit colours, because some programs do not know CSS variables.
pub(super) fn svg_css() -> String {
    let list = |pick: fn(Pair) -> &'static str| {
        all().map(|(name, pair)| format!(".{name}{{color:{}}}", pick(pair))).collect::<String>()
    };
    let light = ".t{fill:#1b1d21}.m{fill:#6b7280}.g{stroke:#e8e8e5}.r{stroke:#6b7280}.w{stroke:#1b1d21}.b{fill:#ffffff}.k{stroke:#ffffff}";
    let dark = ".t{fill:#e8eaed}.m{fill:#959da8}.g{stroke:#2a2f36}.r{stroke:#959da8}.w{stroke:#e8eaed}.b{fill:#181b1f}.k{stroke:#181b1f}";
    format!("{light}{}@media (prefers-color-scheme:dark){{{dark}{}}}", list(|pair| pair.0), list(|pair| pair.1))
}
