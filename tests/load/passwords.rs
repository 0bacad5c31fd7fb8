//! A password is in no output, whichever way it was given and whatever goes wrong.

use super::support::{Server, output, rcb};

#[test]
fn a_password_is_in_no_output() {
    let server = Server::start(&["--requirepass", "hunter2%/@x"]);
    let port = server.port();
    let folder = tempfile::tempdir().unwrap();
    let files = ["out.json", "out.csv", "out.hlog"].map(|name| folder.path().join(name));
    let [json, csv, hdr] = files.each_ref().map(|file| file.to_str().unwrap());
    let good = format!("redis://:hunter2%25%2F%40x@127.0.0.1:{port}");
    let bad = format!("redis://:hunter3@127.0.0.1:{port}");
    let cases = [
        (&["-p", &port, "-a", "hunter2%/@x"][..], None, Some(0)),
        (&["-p", &port], Some("hunter2%/@x"), Some(0)),
        (&["--url", &good], None, Some(0)),
        (&["-p", &port, "-a", "hunter3"], None, Some(2)),
        (&["-p", &port], Some("hunter3"), Some(2)),
        (&["--url", &bad], None, Some(2)),
        (&["-p", &port], None, Some(2)),
    ];
    for (server, variable, wanted) in cases {
        // A login that is refused is so before any driver.
        let drivers = if wanted == Some(0) { &["raw", "redis-rs", "fred"][..] } else { &["redis-rs"] };
        for driver in drivers {
            let outputs = ["--json-out-file", json, "--csv", csv, "--hdr-file", hdr, "--driver", driver, "-n", "50", "-c", "2", "-r", "5"];
            let mut command = rcb(&[server, &outputs, &["SET", "__key__", "__data__"]].concat());
            command.envs(variable.map(|password| ("REDISCLI_AUTH", password)));
            let (code, out, error) = output(&mut command);
            assert_eq!(code, wanted, "{server:?} {variable:?}: {out} {error}");
            let mut texts = vec![out, error];
            for file in &files {
                texts.extend(std::fs::read_to_string(file));
                let written = std::fs::remove_file(file).is_ok();
                assert_eq!(written, wanted == Some(0), "{}", file.display());
            }
            assert!(texts.iter().all(|text| !text.contains("hunter")), "{texts:?}");
        }
    }
}
