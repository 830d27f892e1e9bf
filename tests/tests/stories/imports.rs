//! Sequences of another system are imported while it still runs, and again before the change. No
//! value that the other system can have issued is issued here.

use std::fs;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use seqd_tests::binary::run;
use seqd_tests::cluster::Cluster;
use seqd_tests::wait::SetsAtEnd;
use serde_json::json;

/// The table of Leaf, as mysqldump writes it.
fn leaf(order: i64, user: i64) -> String {
    format!(
        "-- MySQL dump\nCREATE TABLE `leaf_alloc` (\n  `biz_tag` varchar(128) NOT NULL,\n  \
         `max_id` bigint NOT NULL,\n  `step` int NOT NULL,\n  `description` varchar(256),\n  \
         `update_time` timestamp NOT NULL,\n  PRIMARY KEY (`biz_tag`)\n);\n\
         INSERT INTO `leaf_alloc` VALUES \
         ('order',{order},1000,'it\\'s; new','2026-01-01 00:00:00'),\
         ('user',{user},1000,NULL,'2026-01-01 00:00:00');\n"
    )
}

struct Importer {
    cluster: Cluster,
}

impl Importer {
    fn import(&self, system: &str, text: &str, more: &[&str]) -> Output {
        let file = self.cluster.folder().join("import");
        fs::write(&file, text).unwrap();
        let (file, endpoints) = (
            file.display().to_string(),
            self.cluster.addresses().join(","),
        );
        let line = ["import", system, &file, "-e", &endpoints, "-o", "plain"];
        run(&[&line, more].concat())
    }

    /// The results of an import with this exit code.
    fn results(&self, system: &str, text: &str, more: &[&str], code: i32) -> Vec<String> {
        let output = self.import(system, text, more);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        stdout.lines().map(|line| line.replace('\t', " ")).collect()
    }
}

#[test]
fn imported_sequences_begin_above_every_value_of_the_old_system() {
    let importer = Importer {
        cluster: Cluster::started(3),
    };
    let cluster = &importer.cluster;
    let created = ["order 5001 1 created", "user 301 1 created"];

    let unasked = importer.import("leaf", &leaf(5001, 301), &[]);
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    let dry = importer.results("leaf", &leaf(5001, 301), &["--dry-run"], 0);
    assert_eq!(dry, created);
    assert!(cluster.sequence_names(0).is_empty());
    assert_eq!(
        importer.results("leaf", &leaf(5001, 301), &["--yes"], 0),
        created
    );
    let equal = ["order 5001 1 equal", "user 301 1 equal"];
    assert_eq!(importer.results("leaf", &leaf(5001, 301), &[], 0), equal);

    // A node holds a range from 5001; then the old system continues beyond it.
    assert!(cluster.next(0, "order", 1).0 >= 5001);
    let moved = ["order 5501 1 equal", "user 901 1 advanced"];
    assert_eq!(
        importer.results("leaf", &leaf(5501, 901), &["--yes"], 0),
        moved
    );
    for node in 0..3 {
        assert!(cluster.next(node, "order", 1).0 >= 5501);
        assert!(cluster.next(node, "user", 1).0 >= 901);
    }

    let tiny = "biz_type\tmax_id\tstep\tdelta\tremainder\npay\t1000\t100\t4\t3\n";
    let results = importer.results("tinyid", tiny, &["--yes", "--mode", "strict"], 0);
    assert_eq!(results, ["pay 1003 4 created"]);
    assert_eq!(cluster.next(1, "pay", 2), (1003, 1007));

    // Another remainder cannot continue this sequence. The other rows are imported.
    let other = "biz_type\tmax_id\tdelta\tremainder\npay\t5000\t4\t1\nbill\t8\t1\t0\n";
    let results = importer.results("tinyid", other, &["--yes"], 6);
    assert_eq!(results, ["pay 5001 4 refused", "bill 9 1 created"]);
    assert_eq!(cluster.next(2, "pay", 1), (1011, 1011));
}

#[test]
fn thousands_of_counters_are_imported_twice() {
    let importer = Importer {
        cluster: Cluster::started(3),
    };
    let rows = (0..1500).map(|at| format!("c{at},{at}\n"));
    let text: String = std::iter::once("name,value\n".to_owned())
        .chain(rows)
        .collect();
    let begun = std::time::Instant::now();
    for result in ["created", "equal"] {
        let results = importer.results("counters", &text, &["--yes", "--prefix", "r."], 0);
        assert_eq!(results.len(), 1500);
        assert!(results.iter().all(|line| line.ends_with(result)));
        println!("1500 counters {result} after {:?}", begun.elapsed());
    }
    assert!(importer.cluster.next(2, "r.c1499", 1).0 >= 1500);

    let bad = importer.import("counters", "name,value\nnew,1\nc0,-1\n", &["--yes"]);
    assert_eq!(bad.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&bad.stderr);
    assert!(stderr.contains("line 3"), "{stderr}");
    assert!(!importer.cluster.sequence_names(0).contains("new"));
}

#[test]
fn an_ordered_sequence_issues_no_value_below_the_start_after_an_import() {
    let importer = Importer {
        cluster: Cluster::started(3),
    };
    let cluster = &importer.cluster;
    cluster.create_sequence(0, "order", &json!({"mode": "ordered"}));
    // The leader holds a run of values from 1, part of which the old system has issued.
    assert_eq!(cluster.next(0, "order", 1), (1, 1));
    let text = "name,value\norder,10\nnew,10\n";
    let results = importer.results("counters", text, &["--yes"], 0);
    assert_eq!(results, ["order 11 1 equal", "new 11 1 created"]);
    for node in 0..3 {
        assert!(cluster.next(node, "order", 1).0 >= 11);
    }
    // Counters are strict by default.
    assert_eq!(cluster.next(0, "new", 1), (11, 11));
    assert_eq!(cluster.next(1, "new", 1), (12, 12));
}

#[test]
fn a_sequence_in_use_is_not_refused() {
    let importer = Importer {
        cluster: Cluster::started(3),
    };
    let cluster = &importer.cluster;
    let small = json!({"segment": {"min": 1000, "max": 1000}});
    cluster.create_sequence(0, "order", &small);
    assert_eq!(cluster.next(0, "order", 500), (1, 500));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = SetsAtEnd(&is_done);
        for node in 0..3 {
            let is_done = &is_done;
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    cluster
                        .post(node, "/v1/sequences/order/next?count=900")
                        .ok();
                }
            });
        }
        let results: Vec<_> = (0..20)
            .map(|_| importer.import("counters", "name,value\norder,100\n", &["--yes"]))
            .collect();
        drop(end);
        for output in results {
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    });
}
