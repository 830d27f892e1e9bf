//! The file `peers` with two concurrent writers, and after the stop.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use seqd_disk::Tap;

use super::harness::Cluster;
use crate::tasks::peers_file;

/// Holds one write of the file at its sync: signals the write's arrival, and waits until it may
/// continue.
#[derive(Default)]
struct Hold(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Tap for Hold {
    fn sync(&self, path: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        if !path.ends_with("peers.tmp") {
            return below();
        }
        // The lock is released before the wait, so that it does not hold a second write.
        let held = self.0.lock().unwrap().take();
        if let Some((arrived, go_on)) = held {
            arrived.send(()).unwrap();
            go_on.recv().unwrap();
        }
        below()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writes_of_the_file_at_once_leave_one_of_them_whole() {
    let hold = Arc::new(Hold::default());
    let mut cluster = Cluster::on_disk(&hold).await;

    let (arrived, is_held) = mpsc::channel();
    let (release, go_on) = mpsc::channel();
    *hold.0.lock().unwrap() = Some((arrived, go_on));
    let (first, second) = (cluster.raft(0).clone(), cluster.raft(0).clone());
    let first = thread::spawn(move || peers_file::write(&first.node().context));
    is_held.recv().unwrap();
    let (done, is_done) = mpsc::channel();
    let second = thread::spawn(move || {
        let written = peers_file::write(&second.node().context);
        done.send(()).unwrap();
        written
    });
    // The second write waits for the first. Only a write that does not wait would be done before
    // this ends.
    let overtook = is_done.recv_timeout(Duration::from_millis(200));
    release.send(()).unwrap();
    assert!(
        overtook.is_err(),
        "the second was done while the first wrote"
    );
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    let context = &cluster.raft(0).node().context;
    assert_eq!(
        context.folder.peers().unwrap().unwrap().rows,
        context.peers.rows().0
    );
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_stop_the_file_is_not_written() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    let raft = cluster.raft(0).clone();
    cluster.stop_all().await;
    let path = cluster.spots[0].folder.join("peers");
    std::fs::remove_file(&path).unwrap();
    peers_file::write(&raft.node().context).unwrap();
    assert!(!path.exists());
}
