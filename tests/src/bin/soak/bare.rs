//! The baselines for the measurements of seqd: an axum handler that only counts, in a separate
//! process, and a loop of `fdatasync` on a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use seqd_tests::checkers::Violation;

/// The size of the loop's preallocated file, which is of the order of a log segment.
const FILE: u64 = 64 << 20;

/// Serves `GET /v1/id` with a counter until it is killed. Prints its address first.
pub(crate) fn serve() -> Result<(), Violation> {
    let runtime = tokio::runtime::Runtime::new();
    runtime.expect("a runtime").block_on(async {
        static COUNTER: AtomicU64 = AtomicU64::new(117_450_583_018_840_064);
        let handler = || async { COUNTER.fetch_add(1, Ordering::Relaxed).to_string() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        println!("{}", listener.local_addr().expect("its address"));
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let router = Router::new().route("/v1/id", get(handler));
        axum::serve(listener, router)
            .await
            .expect("the bare handler serves");
    });
    Ok(())
}

/// The process of the bare handler. Dropping this kills it.
pub(crate) struct BareAxum {
    child: Child,
    pub(crate) address: String,
}

impl BareAxum {
    pub(crate) fn start() -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(own)
            .arg("bare-axum")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bare handler starts");
        let mut address = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out)
            .read_line(&mut address)
            .expect("its address");
        Self {
            child,
            address: address.trim().to_owned(),
        }
    }
}

impl Drop for BareAxum {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `fdatasync` calls per second, each after a write of 512 bytes to a preallocated file.
pub(crate) fn fdatasyncs_per_second(folder: &Path, length: Duration) -> f64 {
    let path = folder.join("fdatasync-loop");
    let mut file = File::create(&path).expect("a file");
    let zeroes = vec![0_u8; 1 << 20];
    for _ in 0..FILE >> 20 {
        file.write_all(&zeroes).expect("room for the file");
    }
    file.sync_all().expect("the file is synced");
    file.seek(SeekFrom::Start(0)).expect("its begin");
    let begin = Instant::now();
    let mut calls = 0_u64;
    while begin.elapsed() < length {
        file.write_all(&[7; 512]).expect("a write");
        file.sync_data().expect("fdatasync");
        calls += 1;
    }
    let rate = calls as f64 / begin.elapsed().as_secs_f64();
    let _ = std::fs::remove_file(path);
    rate
}
