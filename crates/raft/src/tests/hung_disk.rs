//! A disk that hangs: its node gives the lead away, and is not elected until the disk works again.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use seqd_disk::{Disk, DiskFile, Kind, OsDisk};
use tokio::time::{Instant, sleep};

use super::harness::{Cluster, create, deadline, next, wait};

/// Whether syncs are held, and a bell for when they no longer are.
type Valve = Arc<(Mutex<bool>, Condvar)>;

/// The operating system's disk, whose syncs can be held.
#[derive(Clone, Default)]
struct HeldDisk {
    held: Valve,
}

impl HeldDisk {
    fn hold(&self, hold: bool) {
        *self.held.0.lock().unwrap() = hold;
        self.held.1.notify_all();
    }

    fn file(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        let held = Arc::clone(&self.held);
        file.map(|file| Arc::new(HeldFile { file, held }) as Arc<dyn DiskFile>)
    }
}

struct HeldFile {
    file: Arc<dyn DiskFile>,
    held: Valve,
}

impl HeldFile {
    fn pass(&self) {
        let held = self.held.0.lock().unwrap();
        drop(self.held.1.wait_while(held, |held| *held).unwrap());
    }
}

impl DiskFile for HeldFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.pass();
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.pass();
        self.file.sync_all()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Disk for HeldDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsDisk.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        OsDisk.kind(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.file(OsDisk.open(path))
    }
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.file(OsDisk.open_read(path))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.file(OsDisk.create(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(path)
    }
}

/// Three nodes with disks that can be held.
async fn cluster() -> (Cluster, Vec<HeldDisk>) {
    let disks: Vec<HeldDisk> = (0..3).map(|_| HeldDisk::default()).collect();
    let mut cluster = Cluster::planned(3);
    for (spot, disk) in cluster.spots.iter_mut().zip(&disks) {
        spot.disk = Arc::new(disk.clone());
    }
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.ready().await;
    let created = cluster
        .raft(0)
        .propose(vec![create("orders")], deadline())
        .await;
    created.unwrap();
    (cluster, disks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_hangs_makes_room_and_follows_when_it_works_again() {
    let (mut cluster, disks) = cluster().await;
    let hung = cluster.leader().expect("there is a leader");
    let others: Vec<usize> = (0..3).filter(|at| *at != hung).collect();
    disks[hung].hold(true);
    // Something to write, so that the disk is asked.
    assert!(next(cluster.raft(others[0]), "orders").await.is_some());
    wait("another node leads", || async {
        let leaders = others.iter().map(|at| cluster.raft(*at).status().leader);
        let own = cluster.raft(hung).status().node_id;
        leaders
            .into_iter()
            .all(|leader| leader.is_some() && leader != own)
    })
    .await;
    let status = cluster.raft(hung).status();
    assert!(status.disk_hangs);
    assert!(cluster.raft(hung).storage_stats().stalled_seconds >= 1.0);
    let mut last = 0;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        // It stays that way: the hung one is never elected.
        let value = next(cluster.raft(others[1]), "orders").await.unwrap();
        assert!(value > last);
        last = value;
        for at in &others {
            let leader = cluster.raft(*at).status().leader;
            assert_ne!(leader, status.node_id);
        }
        sleep(Duration::from_millis(20)).await;
    }
    disks[hung].hold(false);
    wait("it follows again and has caught up", || async {
        let (ours, theirs) = (
            cluster.raft(hung).status(),
            cluster.raft(others[0]).status(),
        );
        !ours.disk_hangs && ours.digest == theirs.digest && ours.leader == theirs.leader
    })
    .await;
    assert!(next(cluster.raft(hung), "orders").await.unwrap() > last);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_hangs_is_not_elected_when_the_leader_goes() {
    let (mut cluster, disks) = cluster().await;
    let leader = cluster.leader().expect("there is a leader");
    let hung = (leader + 1) % 3;
    let third = (leader + 2) % 3;
    disks[hung].hold(true);
    assert!(next(cluster.raft(third), "orders").await.is_some());
    wait("the disk is seen to hang", || async {
        cluster.raft(hung).status().disk_hangs
    })
    .await;
    cluster.stop(leader).await;
    wait("the other one leads, or nobody does", || async {
        let leader = cluster.raft(third).status().leader;
        leader.is_none() || leader == cluster.raft(third).status().node_id
    })
    .await;
    assert_ne!(cluster.leader(), Some(hung));
    cluster.start(leader).await.unwrap();
    wait("values are given again", || async {
        next(cluster.raft(third), "orders").await.is_some()
    })
    .await;
    assert_ne!(cluster.leader(), Some(hung));
    disks[hung].hold(false);
    cluster.ready().await;
    cluster.stop_all().await;
}
