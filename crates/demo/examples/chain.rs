//! Makes a chain: `chain --out DIR --blocks N --seed S [--utxos N] [--tail N] [--signatures real|fake] [--threads N]`.

use demo::chain::{Options, generate};
use std::process::ExitCode;

fn options() -> Result<Options, String> {
    let mut options = Options::new("", 0, 1);
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|why| format!("{name} {value}: {why}"));
        let count = || value.parse::<u32>().map_err(|why| format!("{name} {value}: {why}"));
        match name.as_str() {
            "--out" => options.out = value.into(),
            "--blocks" => options.blocks = count()?,
            "--seed" => options.seed = number()?,
            "--utxos" => options.utxos = number()?,
            "--tail" => options.tail = count()?,
            "--signatures" => options.signatures = value.parse()?,
            "--profile" => options.profile = value.parse()?,
            "--threads" => options.threads = std::num::NonZeroUsize::new(count()? as usize),
            _ => return Err(format!("{name} is no option of this example")),
        }
    }
    if options.out.as_os_str().is_empty() {
        return Err("--out is missing: the data directory to make".to_owned());
    }
    Ok(options)
}

fn main() -> ExitCode {
    let mut shown = 0.0;
    let made = options().and_then(|options| {
        let report = generate(&options, |progress| {
            if progress.seconds - shown >= 2.0 {
                shown = progress.seconds;
                eprintln!(
                    "block {} of {}, {} MB, {:.0} s to go",
                    progress.blocks,
                    progress.blocks_total,
                    progress.bytes / 1_000_000,
                    progress.seconds_left.unwrap_or(f64::NAN)
                );
            }
        });
        report.map_err(|why| why.to_string())
    });
    match made.map(|report| serde_json::to_string(&report).expect("a report is plain")) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
