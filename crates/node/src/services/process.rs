//! The metrics of a process that the Prometheus client libraries export, under their names.

use procfs::process::{LimitValue, Process};

use crate::metrics::Scrape;

/// Adds the metrics; none on a system without procfs.
pub(super) fn read(scrape: &mut Scrape) {
    let Ok(process) = Process::myself() else {
        return;
    };
    if let Ok(stat) = process.stat() {
        let ticks = procfs::ticks_per_second() as f64;
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        scrape.process_count("process_cpu_seconds", "Time on processors", cpu);
        let resident = stat.rss as f64 * procfs::page_size() as f64;
        let help = "Memory in use";
        scrape.process("process_resident_memory_bytes", help, resident);
        let virtual_bytes = stat.vsize as f64;
        let help = "Addresses in use";
        scrape.process("process_virtual_memory_bytes", help, virtual_bytes);
        scrape.process("process_threads", "Threads", stat.num_threads as f64);
        if let Ok(booted) = procfs::boot_time_secs() {
            let started = booted as f64 + stat.starttime as f64 / ticks;
            let help = "When the process was started";
            scrape.process("process_start_time_seconds", help, started);
        }
    }
    if let Ok(open) = process.fd_count() {
        scrape.process("process_open_fds", "Open files", open as f64);
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(most) = limits.max_open_files.soft_limit
    {
        scrape.process(
            "process_max_fds",
            "Maximum number of open files",
            most as f64,
        );
    }
}
