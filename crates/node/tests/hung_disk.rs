//! A node on one thread of the runtime whose disk hangs: operations that need no disk continue.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod support;

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use seqd_disk::{Disk, DiskFile, Kind, OsDisk, Tap, Tapped};
use seqd_node::OsClock;
use tokio::runtime::Handle;

/// Blocks every call that reaches the disk.
#[derive(Default)]
struct Valve {
    held: Mutex<bool>,
    bell: Condvar,
}

impl Valve {
    fn hold(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.bell.notify_all();
    }

    fn wait(&self) {
        let held = self.held.lock().unwrap();
        drop(self.bell.wait_while(held, |held| *held).unwrap());
    }
}

impl Tap for Valve {
    fn read(&self, _: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.wait();
        below()
    }
    fn list(&self, below: &dyn Disk, path: &Path) -> io::Result<Vec<String>> {
        self.wait();
        below.list(path)
    }
    fn kind(&self, below: &dyn Disk, path: &Path) -> io::Result<Option<Kind>> {
        self.wait();
        below.kind(path)
    }
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        self.wait();
        below.write_at(buf, offset)
    }
    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.wait();
        below()
    }
    fn sync_dir(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.wait();
        below.sync_dir(path)
    }
    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        self.wait();
        below.rename(from, to)
    }
    fn remove(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.wait();
        below.remove(path)
    }
}

/// Far longer than the disk hangs: a request that waits for the disk is not answered within this
/// time.
const PATIENCE: Duration = Duration::from_secs(20);

// This attribute uses one thread.
#[tokio::test]
async fn on_one_thread_a_disk_that_hangs_does_not_stop_ids() {
    let folder = tempfile::tempdir().unwrap();
    let valve = Arc::new(Valve::default());
    let (disk, tap) = (Arc::new(OsDisk), Arc::clone(&valve));
    let disk = Arc::new(Tapped { disk, tap });
    let clock = Arc::new(OsClock);
    let node = support::start(folder.path(), "", clock, disk, Handle::current()).await;
    let url = format!("http://{}", node.http_addr());
    let tls = seqd_net::tls::client(&seqd_net::tls::ClientFiles::default(), false).unwrap();
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .build()
        .unwrap();
    let get = async |path: &str| {
        let asked = client.get(format!("{url}{path}")).timeout(PATIENCE).send();
        asked.await.map(|answer| answer.status().as_u16())
    };
    let until = Instant::now() + PATIENCE;
    while get("/readyz").await.unwrap() != 200 {
        assert!(Instant::now() < until, "it is ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    valve.hold(true);
    // Unblocks the disk also if the only thread is blocked, so that the test fails and ends.
    let (done, over) = std::sync::mpsc::channel::<()>();
    let watched = Arc::clone(&valve);
    let watch = std::thread::spawn(move || {
        let ended = over.recv_timeout(PATIENCE / 2);
        watched.hold(false);
        ended.is_ok()
    });
    let began = Instant::now();
    let mut answers = Vec::new();
    // Longer than the intervals of checkpoints, marks of the clock and reloads of files.
    while began.elapsed() < PATIENCE / 8 || answers.len() < 30 {
        for path in ["/v1/id", "/metrics", "/livez"] {
            answers.push(get(path).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() < PATIENCE, "{} answers", answers.len());
    }
    let _ = done.send(());
    assert!(watch.join().unwrap(), "a request waited for the disk");
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    node.stop().await;
}
