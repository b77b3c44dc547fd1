//! Every micro benchmark, small.

use super::*;

fn quick(filter: Option<&str>) -> Report {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let data = default_data().or_else(|| beside.is_dir().then_some(beside));
    run(&Options { filter: filter.map(str::to_owned), quick: true, data, ..Options::default() }, |_| {}).unwrap()
}

/// Every experiment, small: all agree, and each says once what ffwd does.
#[test]
fn every_variant_agrees_and_one_is_shipped() {
    let report = quick(None);
    assert_eq!(report.disagreements(), Vec::<String>::new());
    let mut names: Vec<&str> = report.experiments.iter().map(|row| &row.experiment[..]).collect();
    names.dedup();
    assert_eq!(names, list(), "tables come once, in the order of the list");
    for rows in report.experiments.chunk_by(|a, b| a.experiment == b.experiment) {
        let name = &rows[0].experiment;
        assert!(rows.len() >= 2, "{name}: a plain way and another");
        assert!(!rows[0].shipped, "{name}: the plain way comes first");
        assert_eq!(rows.iter().filter(|row| row.shipped).count(), 1, "{name}: one way is shipped");
        for row in rows {
            assert!(row.ns_per_op > 0.0 && row.ratio > 0.0 && row.error_percent >= 0.0, "{name}: {row:?}");
        }
    }
    let json = serde_json::to_value(&report).unwrap();
    for key in ["experiment", "variant", "shipped", "unit", "ns_per_op", "ratio", "error_percent", "agrees"] {
        assert!(!json["experiments"][0][key].is_null(), "{key}");
    }
}

/// A block that stands in for 413567 is named in its rows.
#[test]
fn missing_test_data_uses_a_made_block() {
    let options = Options { filter: Some("413567: PARSE".into()), quick: true, ..Options::default() };
    let mut told = Vec::new();
    let report = run(&options, |progress| told.push(format!("{progress:?}"))).unwrap();
    assert_eq!(told.len(), 2);
    assert!(report.experiments.iter().all(|row| row.agrees && row.variant.ends_with("(a made block stands in)")));
    let options = Options { filter: Some("no such thing".into()), ..Options::default() };
    let why = run(&options, |_| {}).unwrap_err().to_string();
    assert!(why.contains("no such thing") && why.contains("--list"), "{why}");
}

/// A way that gives something else is found, and says so wherever rows are shown.
#[test]
fn disagreeing_variant_is_reported() {
    let (wanted, mut progress) = (|_: &str| true, |_: Progress<'_>| {});
    let mut bench = Bench::new(true, &wanted, 1, &mut progress);
    let mut table = bench.table("sums", "sum", 1).unwrap();
    table.way("plain", || 2 + 2);
    table.way("wrong", || 5).shipped();
    table.way("right", || 4).memory(1234.0, Some(0.5));
    bench.run(table).unwrap();
    let report = Report { experiments: bench.into_rows(), quick: true, no_counters: None, seconds: 0.0 };
    assert_eq!(report.disagreements(), ["sums: wrong"]);
    let text = report.markdown();
    assert!(text.contains("**wrong** DOES NOT AGREE") && text.contains("1,234 |     0.50 | right"), "{text}");
    let csv = report.csv();
    assert!(csv.lines().nth(2).unwrap().starts_with("\"sums\",\"wrong\",true,sum,"), "{csv}");
    assert_eq!(csv.lines().count(), 4);
}

#[test]
fn faster_than_shipped_names_variants() {
    let row = |variant: &str, shipped, ns_per_op| Row {
        experiment: "e".into(),
        variant: variant.into(),
        shipped,
        unit: "op",
        ns_per_op,
        ops_per_second: 1e9 / ns_per_op,
        ratio: 100.0 / ns_per_op,
        error_percent: 1.0,
        epochs: 11,
        agrees: true,
        bytes: None,
        allocations: None,
        counts: None,
        compared: None,
    };
    let experiments =
        vec![row("plain", false, 100.0), row("ours", true, 50.0), row("near", false, 48.0), row("fast", false, 40.0)];
    let report = Report { experiments, quick: false, no_counters: None, seconds: 0.0 };
    let found = report.faster_than_shipped(5.0);
    assert_eq!(found.iter().map(|(_, row)| &row.variant[..]).collect::<Vec<_>>(), ["fast"]);
    assert!(
        report.markdown().contains("|   250.0% |                40.00 |        25,000,000.00 |    1.0% | fast"),
        "{}",
        report.markdown()
    );
}
