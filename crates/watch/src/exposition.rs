//! Prometheus' text format, version 0.0.4: families of series, each with help and type in front.
//!
//! ```text
//! # HELP name help
//! # TYPE name counter
//! name{label="value"} 17
//! ```
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>. Absent on purpose: a registry, time
//! stamps, exemplars.

use node::histogram::{BOUNDS, Histogram};
use std::fmt::Write;

/// Type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// One value of a family, with its labels.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    /// The labels with their braces, serialized; empty without labels.
    labels: String,
    value: f64,
}

impl Series {
    pub(crate) fn new(labels: &[(&str, &str)], value: f64) -> Series {
        let pairs: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value).replace('"', "\\\""))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        Series { labels, value }
    }
}

/// The text under construction.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// A family of several series; a family without series has no lines.
    pub(crate) fn family(&mut self, kind: Kind, name: &str, help: &str, series: Vec<Series>) {
        if series.is_empty() {
            return;
        }
        self.head(kind.name(), name, help);
        for Series { labels, value } in series {
            self.sample(&format!("{name}{labels}"), value);
        }
    }

    /// A gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(Kind::Gauge, name, help, vec![Series::new(&[], value)]);
    }

    /// A counter without labels.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family(Kind::Counter, name, help, vec![Series::new(&[], value)]);
    }

    /// A histogram of durations: each bucket includes the ones before it.
    pub(crate) fn histogram(&mut self, name: &str, help: &str, bounds_s: &[f64; BOUNDS], histogram: &Histogram) {
        self.head("histogram", name, help);
        let mut sum = 0;
        for (bound, count) in bounds_s.iter().zip(histogram.counts) {
            sum += count;
            self.sample(&format!("{name}_bucket{{le=\"{}\"}}", number(*bound)), sum as f64);
        }
        let count = histogram.counts.iter().sum::<u64>() as f64;
        self.sample(&format!("{name}_bucket{{le=\"+Inf\"}}"), count);
        self.sample(&format!("{name}_sum"), histogram.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), count);
    }

    /// The whole text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help))
            .expect("a string takes what it is given");
    }

    fn sample(&mut self, name: &str, value: f64) {
        writeln!(self.0, "{name} {}", number(value)).expect("a string takes what it is given");
    }
}

/// Escapes a text to one line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// A number in the format's form: infinities as in Go.
fn number(value: f64) -> String {
    if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::proto;
    use prometheus::{Encoder, TextEncoder};

    /// The same family for the library that other programs write this format with.
    fn family(kind: proto::MetricType, name: &str, help: &str, metrics: Vec<proto::Metric>) -> proto::MetricFamily {
        let mut family = proto::MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        family
    }

    fn counter(labels: &[(&str, &str)], value: f64) -> proto::Metric {
        let pairs = labels.iter().map(|(name, value)| {
            let mut pair = proto::LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut out = proto::Counter::default();
        out.set_value(value);
        let mut metric = proto::Metric::from_label(pairs.collect());
        metric.set_counter(out);
        metric
    }

    #[test]
    fn text_is_that_of_the_prometheus_library() {
        let help = "Two lines,\nand a \\ and a \" in the second.";
        let rows: [(&[(&str, &str)], f64); 6] = [
            (&[], 0.0),
            (&[("reason", "bad-txnmrklroot")], 17.0),
            (&[("reason", "\"\\\n{},=")], 0.1 + 0.2),
            (&[("type", "inbound"), ("transport", "")], 1e21),
            (&[("a", "\u{fc}")], f64::NAN),
            (&[("a", "\\\\")], 9_007_199_254_740_993.0),
        ];
        let mut ours = Exposition::default();
        let series: Vec<Series> = rows.iter().map(|(labels, value)| Series::new(labels, *value)).collect();
        ours.family(Kind::Counter, "ffwd_a_total", help, series);
        ours.family(Kind::Gauge, "ffwd_none", "No series.", Vec::new());
        let theirs = rows.iter().map(|(labels, value)| counter(labels, *value)).collect();
        let mut want = Vec::new();
        let families = [family(proto::MetricType::COUNTER, "ffwd_a_total", help, theirs)];
        TextEncoder::new().encode(&families, &mut want).unwrap();
        assert_eq!(ours.into_text(), String::from_utf8(want).unwrap());
    }

    #[test]
    fn infinities_are_spelt_as_in_go() {
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY, 0.5].map(number), ["+Inf", "-Inf", "0.5"]);
    }
}
