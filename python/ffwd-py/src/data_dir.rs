//! A data directory, and its UTXO set.

use crate::errors;
use crate::jobs::{self, JobReport, Tell, VerifyReport};
use crate::tables::{ArrowTable, Table};
use ffwd_engine::{BlockHash, Index, Network, OutPoint, Stop};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

fn read<T: FromStr<Err: fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|why: T::Err| PyValueError::new_err(why.to_string()))
}

fn index(name: &str) -> PyResult<Index> {
    match name {
        "txindex" => Ok(Index::Transactions),
        "blockfilterindex" => Ok(Index::BlockFilters),
        "coinstatsindex" => Ok(Index::CoinStats),
        "txospenderindex" => Ok(Index::Spenders),
        "silentpaymentindex" => Ok(Index::SilentPayments),
        _ => Err(PyValueError::new_err(format!(
            "no index is called {name:?}: use one of txindex, blockfilterindex, coinstatsindex, txospenderindex, \
             silentpaymentindex"
        ))),
    }
}

/// The options of a job, by their names: what is taken is what the job knows.
struct Given<'py>(Bound<'py, PyDict>);

impl<'py> Given<'py> {
    fn new(py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Given<'py>> {
        Ok(Given(match options {
            Some(options) => options.copy()?,
            None => PyDict::new(py),
        }))
    }

    /// An option that may be absent, or None.
    fn take<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.0.get_item(name)? else { return Ok(None) };
        self.0.del_item(name)?;
        if value.is_none() {
            return Ok(None);
        }
        let value = value.extract::<T>().map_err(Into::into);
        value.map(Some).map_err(|why: PyErr| PyTypeError::new_err(format!("{name}: {why}")))
    }

    fn is_true(&self, name: &str) -> PyResult<bool> {
        Ok(self.take(name)?.unwrap_or(false))
    }

    /// Says no to a name that no option has.
    fn done(self) -> PyResult<()> {
        match self.0.keys().into_iter().next() {
            None => Ok(()),
            Some(name) => Err(PyTypeError::new_err(format!("got an unexpected keyword argument {name:?}"))),
        }
    }
}

/// What jobs that connect blocks can be told.
struct Connecting {
    verify_all_scripts: bool,
    assume_valid: Option<BlockHash>,
    stop_at_height: Option<u32>,
    prune_to: Option<u64>,
    indexes: Vec<Index>,
    cache_bytes: Option<usize>,
}

impl Connecting {
    fn of(given: &Given<'_>) -> PyResult<Connecting> {
        let indexes: Vec<String> = given.take("indexes")?.unwrap_or_default();
        Ok(Connecting {
            verify_all_scripts: given.is_true("verify_all_scripts")?,
            assume_valid: given.take::<String>("assume_valid")?.map(|text| read(&text)).transpose()?,
            stop_at_height: given.take("stop_at_height")?,
            prune_to: given.take("prune_to")?,
            indexes: indexes.iter().map(|name| index(name)).collect::<PyResult<_>>()?,
            cache_bytes: given.take("cache_bytes")?,
        })
    }
}

/// A job with these options: both of the engine's have methods of the same names.
macro_rules! with {
    ($job:expr, $options:expr, $stop:expr, $tell:expr) => {{
        let mut job = $job.stop($stop).on_event($tell);
        let options = $options;
        if options.verify_all_scripts {
            job = job.verify_all_scripts();
        }
        if let Some(block) = options.assume_valid {
            job = job.assume_valid(block);
        }
        if let Some(height) = options.stop_at_height {
            job = job.stop_at_height(height);
        }
        if let Some(bytes) = options.prune_to {
            job = job.prune_to(bytes);
        }
        if let Some(bytes) = options.cache_bytes {
            job = job.cache_bytes(bytes);
        }
        options.indexes.into_iter().fold(job, |job, index| job.index(index))
    }};
}

/// A data directory of Bitcoin Core.
#[pyclass(frozen, module = "ffwd")]
pub(crate) struct DataDir(ffwd_engine::DataDir);

impl DataDir {
    fn table(&self, py: Python<'_>, table: Table, start: u32, stop: Option<u32>) -> PyResult<ArrowTable> {
        let made = py.detach(|| ArrowTable::of_blocks(&self.0, table, start, stop));
        made.map_err(|why| errors::engine(py, &why))
    }
}

#[pymethods]
impl DataDir {
    #[staticmethod]
    #[pyo3(signature = (path, network = "main", *, blocks_dir = None, signet_challenge = None, threads = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        network: &str,
        blocks_dir: Option<PathBuf>,
        signet_challenge: Option<Vec<u8>>,
        threads: Option<usize>,
    ) -> PyResult<DataDir> {
        let mut builder = ffwd_engine::DataDir::builder(path, read::<Network>(network)?);
        if let Some(path) = blocks_dir {
            builder = builder.blocks_dir(path);
        }
        if let Some(script) = signet_challenge {
            builder = builder.signet_challenge(script);
        }
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        builder.open().map(DataDir).map_err(|why| errors::engine(py, &why))
    }

    #[getter]
    fn path(&self) -> String {
        self.0.path().to_string_lossy().into_owned()
    }

    #[getter]
    fn network(&self) -> &'static str {
        self.0.network().name()
    }

    fn __repr__(&self) -> String {
        format!("DataDir({:?}, {:?})", self.path(), self.network())
    }

    #[pyo3(signature = (**options))]
    fn reindex(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<JobReport> {
        let given = Given::new(py, options)?;
        let connecting = Connecting::of(&given)?;
        let coins_only = given.is_true("coins_only")?;
        let on_event = given.take("on_event")?;
        given.done()?;
        let dir = &self.0;
        let stop = Stop::new();
        let work = |tell: Tell| {
            let job = with!(dir.reindex(), connecting, &stop, tell);
            if coins_only { job.coins_only().run() } else { job.run() }
        };
        jobs::run(py, &stop, on_event, work).map(JobReport::from)
    }

    #[pyo3(signature = (**options))]
    fn sync(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<JobReport> {
        let given = Given::new(py, options)?;
        let connecting = Connecting::of(&given)?;
        let connect: Option<Vec<String>> = given.take("connect")?;
        let add_nodes: Vec<String> = given.take("add_nodes")?.unwrap_or_default();
        let proxy: Option<String> = given.take("proxy")?;
        let dns_seeds = given.take("dns_seeds")?.unwrap_or(true);
        let follow = given.is_true("follow")?;
        let snapshot: Option<PathBuf> = given.take("snapshot")?;
        let on_event = given.take("on_event")?;
        given.done()?;
        let dir = &self.0;
        let stop = Stop::new();
        let work = |tell: Tell| {
            let mut job = with!(dir.sync(), connecting, &stop, tell);
            if let Some(peers) = connect {
                job = job.connect(peers);
            }
            if let Some(address) = proxy {
                job = job.proxy(address);
            }
            if let Some(file) = snapshot {
                job = job.snapshot(file);
            }
            if !dns_seeds {
                job = job.without_dns_seeds();
            }
            if follow {
                job = job.follow();
            }
            add_nodes.into_iter().fold(job, |job, peer| job.add_node(peer)).run()
        };
        jobs::run(py, &stop, on_event, work).map(JobReport::from)
    }

    #[pyo3(
        signature = (*, level = 3, blocks = Some(6), **options),
        text_signature = "($self, *, level=3, blocks=6, **options)"
    )]
    fn verify(
        &self,
        py: Python<'_>,
        level: u8,
        blocks: Option<u32>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<VerifyReport> {
        let given = Given::new(py, options)?;
        let verify_all_scripts = given.is_true("verify_all_scripts")?;
        let cache_bytes: Option<usize> = given.take("cache_bytes")?;
        let on_event = given.take("on_event")?;
        given.done()?;
        let dir = &self.0;
        let stop = Stop::new();
        let work = |tell: Tell| {
            let mut job = dir.verify().level(level).stop(&stop).on_event(tell);
            job = match blocks {
                Some(blocks) => job.blocks(blocks),
                None => job.all_blocks(),
            };
            if verify_all_scripts {
                job = job.verify_all_scripts();
            }
            if let Some(bytes) = cache_bytes {
                job = job.cache_bytes(bytes);
            }
            job.run()
        };
        jobs::run(py, &stop, on_event, work).map(VerifyReport::from)
    }

    #[pyo3(signature = (start = 0, stop = None))]
    fn blocks(&self, py: Python<'_>, start: u32, stop: Option<u32>) -> PyResult<ArrowTable> {
        self.table(py, Table::Blocks, start, stop)
    }

    #[pyo3(signature = (start = 0, stop = None))]
    fn transactions(&self, py: Python<'_>, start: u32, stop: Option<u32>) -> PyResult<ArrowTable> {
        self.table(py, Table::Transactions, start, stop)
    }

    #[pyo3(signature = (start = 0, stop = None))]
    fn inputs(&self, py: Python<'_>, start: u32, stop: Option<u32>) -> PyResult<ArrowTable> {
        self.table(py, Table::Inputs, start, stop)
    }

    #[pyo3(signature = (start = 0, stop = None))]
    fn outputs(&self, py: Python<'_>, start: u32, stop: Option<u32>) -> PyResult<ArrowTable> {
        self.table(py, Table::Outputs, start, stop)
    }

    fn coins(&self, py: Python<'_>) -> PyResult<Coins> {
        let coins = py.detach(|| self.0.coins()).map_err(|why| errors::engine(py, &why))?;
        Ok(Coins(Arc::new(coins)))
    }
}

/// The UTXO set at one block.
#[pyclass(frozen, module = "ffwd")]
pub(crate) struct Coins(Arc<ffwd_engine::Coins>);

#[pymethods]
impl Coins {
    #[getter]
    fn height(&self) -> u32 {
        self.0.height()
    }

    #[getter]
    fn best_block(&self) -> String {
        self.0.best_block().to_string()
    }

    #[getter]
    fn hash_serialized_3(&self, py: Python<'_>) -> PyResult<String> {
        let hash = py.detach(|| self.0.hash_serialized_3());
        hash.map(|hash| hash.to_string()).map_err(|why| errors::engine(py, &why))
    }

    #[getter]
    fn muhash(&self, py: Python<'_>) -> PyResult<String> {
        let hash = py.detach(|| self.0.muhash());
        hash.map(|hash| hash.to_string()).map_err(|why| errors::engine(py, &why))
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = py.detach(|| self.0.info()).map_err(|why| errors::engine(py, &why))?;
        let dict = PyDict::new(py);
        dict.set_item("txouts", info.coins)?;
        dict.set_item("transactions", info.transactions)?;
        dict.set_item("bogosize", info.bogosize)?;
        dict.set_item("total_amount", info.total_amount)?;
        dict.set_item("disk_size", info.disk_size)?;
        Ok(dict)
    }

    fn get<'py>(&self, py: Python<'py>, txid: &str, vout: u32) -> PyResult<Option<Bound<'py, PyDict>>> {
        let outpoint = OutPoint { txid: read(txid)?, vout };
        let found = py.detach(|| self.0.get(&outpoint)).map_err(|why| errors::engine(py, &why))?;
        let Some(coin) = found else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("value", coin.value)?;
        dict.set_item("script", PyBytes::new(py, &coin.script))?;
        dict.set_item("type", coin.script_type().name())?;
        dict.set_item("height", coin.height)?;
        dict.set_item("is_coinbase", coin.is_coinbase)?;
        Ok(Some(dict))
    }

    fn __repr__(&self) -> String {
        format!("Coins(height={}, best_block={:?})", self.height(), self.best_block())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        ArrowTable::of_coins(&self.0).__arrow_c_schema__(py)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        ArrowTable::of_coins(&self.0).__arrow_c_stream__(py, requested_schema)
    }
}
