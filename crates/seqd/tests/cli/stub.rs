//! A stub node that responds by path, and helpers that run the program against it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A route: method and path without the query, status, body.
pub(crate) type Route = (&'static str, u16, String);

/// A stub that returns the configured responses and records all requests except `/livez`.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    pub(crate) fn new(routes: Vec<Route>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &routes, &log);
            }
        });
        Self { address, asked }
    }

    /// A stub with one route that fails with this code.
    pub(crate) fn failing(status: u16, code: &str, retryable: bool) -> Self {
        let body = format!(
            r#"{{"status":{status},"code":"{code}","detail":"it went wrong","retryable":{retryable},"hint":"do this"}}"#
        );
        Self::new(vec![("POST /v1/sequences/a/next", status, body)])
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, routes: &[Route], log: &Mutex<Vec<String>>) {
    let request = read_request(&mut stream);
    let mut head = request.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (
        head.next().unwrap_or_default(),
        head.next().unwrap_or_default(),
    );
    let path = format!("{method} {}", target.split('?').next().unwrap_or_default());
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    if path == "GET /livez" {
        let alive = "HTTP/1.1 200 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        let _ = stream.write_all(alive.as_bytes());
        return;
    }
    log.lock()
        .unwrap()
        .push(format!("{method} {target} {body}").trim_end().to_owned());
    let (status, body) = routes
        .iter()
        .find(|(route, ..)| *route == path)
        .map_or((500, "no such route"), |(_, status, body)| {
            (*status, body.as_str())
        });
    if status == 0 {
        thread::sleep(Duration::from_secs(30));
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
}

/// Reads head and body of one request.
fn read_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut bytes = [0_u8; 4096];
    loop {
        let read = stream.read(&mut bytes).unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return text;
            }
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if body.len() >= length || read == 0 {
            return text;
        }
    }
}

pub(crate) fn seqd(endpoints: &str, args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqd"));
    without_variables(&mut command)
        .env("SEQD_ENDPOINTS", endpoints)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

/// Exit code, stdout, stderr.
pub(crate) fn run(stub: &Stub, args: &[&str]) -> (i32, String, String) {
    texts(&seqd(&stub.address.to_string(), args, ""))
}

pub(crate) fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Removes the `SEQD_` variables from the command's environment.
pub(crate) fn without_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEQD_") {
            command.env_remove(name);
        }
    }
    command
}
