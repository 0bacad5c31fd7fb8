use super::*;
use crate::worker::subject::Source;

fn told(text: &str) -> Refused {
    let spec: SubjectSpec = text.parse().unwrap();
    let Source::Client(origin) = spec.source.clone() else { panic!("{text}") };
    program(&spec, &origin, &BuildOptions { offline: true, sources: None }).unwrap_err()
}

#[test]
fn a_client_or_one_of_its_drivers_may_be_named() {
    let driver = |text: &str| driver_of(&text.parse().unwrap());
    assert_eq!(driver("redis@0.32.7"), Ok("redis-rs"));
    assert_eq!(driver("redis-rs@0.32.7"), Ok("redis-rs"));
    assert_eq!(driver("redis@0.32.7:driver=redis-rs-manager"), Ok("redis-rs-manager"));
    assert_eq!(driver("fred-pool@9.4.0:connections=4"), Ok("fred-pool"));
    assert_eq!(driver("deadpool-redis@0.23.0"), Ok("deadpool-redis"));
    let none = driver("redis-async@0.18.0").unwrap_err().to_string();
    assert!(none.contains("no worker for \"redis-async\"") && none.contains("redis, fred, deadpool-redis"), "{none}");
    assert!(driver("fred@9.4.0:driver=redis-rs").unwrap_err().to_string().contains("it has fred, fred-pool"));
}

#[test]
fn every_driver_of_a_client_is_in_the_registry() {
    for descriptor in crate::drivers::DRIVERS.iter().filter(|descriptor| descriptor.name != "raw") {
        let (client, driver) = client_of(descriptor.name).unwrap_or_else(|| panic!("{} has no worker", descriptor.name));
        assert_eq!((client.name, driver), (descriptor.client, descriptor.name));
    }
}

#[test]
fn mistakes_are_told_before_any_work() {
    for (text, reason) in [
        ("redis@1.8", "no exact version; write it as in 1.8.1"),
        ("redis@0.20.2", "the drivers fit redis from"),
        ("bb8-redis@0.24.0", "the drivers fit bb8-redis from"),
        ("redis@path:/nowhere", "can't read /nowhere/Cargo.toml"),
        ("redis@git:/nowhere#main", "/nowhere is no folder"),
    ] {
        let refused = told(text);
        assert!(matches!(&refused, Refused::Usage(told) if told.starts_with(text) && told.contains(reason)), "{refused:?}");
    }
}

fn manifest_of(version: &str, name: &str, nodelay: bool) -> toml::Table {
    let (client, _) = client_of(name).unwrap();
    let release = clients::release(version);
    let dependency = origin::Dependency::Version(version.into());
    let pins = Pins { client, dependency: &dependency, release, tls: true, nodelay };
    manifest::text(env!("CARGO_MANIFEST_DIR").as_ref(), &pins, "program").unwrap().parse().unwrap()
}

#[test]
fn a_manifest_pins_one_client_and_leaves_out_the_others() {
    let manifest = manifest_of("0.32.7", "redis", true);
    let dependencies = &manifest["dependencies"];
    assert_eq!(dependencies["redis"]["version"].as_str(), Some("=0.32.7"));
    for other in ["fred", "rustis", "deadpool-redis", "testcontainers", "criterion"] {
        assert!(dependencies.get(other).is_none(), "{other}");
    }
    assert!(dependencies["rustls"].get("optional").is_none() && dependencies["tokio"]["version"].is_str());
    assert_eq!(manifest["features"]["default"].to_string(), r#"["redis-rs", "tls"]"#);
    assert!(manifest["features"].get("fred").is_some(), "the sources name it");
    assert_eq!(manifest["bin"][0]["path"].as_str().unwrap(), concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs"));
    assert_eq!(manifest["package"]["metadata"]["rcb-worker"].as_bool(), Some(true));
    assert!(manifest["package"]["version"].as_str() == Some(env!("CARGO_PKG_VERSION")) && manifest.contains_key("workspace"));
}

#[test]
fn features_are_those_that_the_release_has() {
    let features = |version: &str, nodelay| manifest_of(version, "redis", nodelay)["dependencies"]["redis"]["features"].to_string();
    assert!(!features("0.28.2", true).contains("cache-aio") && features("0.32.7", true).contains("cache-aio"));
    assert!(features("0.28.2", true).contains("tcp_nodelay") && !features("0.28.2", false).contains("tcp_nodelay"));
    assert!(!features("1.8.1", true).contains("tcp_nodelay"), "it has a setting");
    assert!(manifest_of("0.28.2", "redis", true)["features"]["default"].to_string().contains("tcp-nodelay"));
}

#[cfg(feature = "redis-rs")]
#[test]
fn a_pool_runs_on_the_redis_crate_of_this_build() {
    let manifest = manifest_of("0.23.0", "deadpool-redis", true);
    assert_eq!(manifest["dependencies"]["deadpool-redis"]["version"].as_str(), Some("=0.23.0"));
    assert_eq!(manifest["dependencies"]["redis"]["version"].as_str(), Some(format!("={}", crate::versions::of("redis")).as_str()));
}
