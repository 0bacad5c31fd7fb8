//! What consumers accept, written down from their documentation: Go's benchmark format and the part of JSON Schema that is used here.

use std::collections::BTreeMap;

use serde_json::Value;

/// One benchmark line of Go's format.
#[derive(Debug, PartialEq)]
pub struct Result1 {
    pub name: String,
    pub iterations: u64,
    pub values: Vec<(f64, String)>,
}

/// A file in Go's benchmark format.
#[derive(Debug, Default)]
pub struct GoFile {
    pub results: Vec<Result1>,
    /// Units with what was said of them.
    pub units: BTreeMap<String, String>,
    pub config: Vec<(String, String)>,
}

/// Reads Go's benchmark format strictly: a line must be a result, unit metadata, configuration, a comment or blank. The format lets a
/// reader ignore other lines; nothing here may depend on that.
pub fn gobench(text: &str) -> Result<GoFile, String> {
    let mut file = GoFile::default();
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| Err(format!("line {}: {what}: {line:?}", index + 1));
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("Benchmark") {
            if fields.len() < 4 || !fields.len().is_multiple_of(2) {
                return wrong("a result has an even number of fields, four or more");
            }
            let Some((_, procs)) = fields[0].rsplit_once('-') else { return wrong("no -N") };
            if procs.parse::<u32>().is_err() {
                return wrong("-N is no number");
            }
            let Ok(iterations) = fields[1].parse::<u64>() else { return wrong("iterations") };
            let mut values = Vec::new();
            for pair in fields[2..].chunks(2) {
                match pair[0].parse::<f64>() {
                    Ok(value) if value.is_finite() => values.push((value, pair[1].to_owned())),
                    _ => return wrong("value"),
                }
            }
            let name = fields[0].to_owned();
            for part in name.split('/').skip(1) {
                if part.split_once('=').is_none_or(|(key, value)| key.is_empty() || value.is_empty()) {
                    return wrong("a part of the name is no key=value");
                }
            }
            file.results.push(Result1 { name, iterations, values });
        } else if fields[0] == "Unit" {
            let [_, unit, property] = fields[..] else { return wrong("unit metadata") };
            if !["better=higher", "better=lower"].contains(&property) {
                return wrong("unit metadata");
            }
            if file.units.insert(unit.to_owned(), property.to_owned()).is_some_and(|before| before != property) {
                return wrong("unit metadata that contradicts itself");
            }
        } else {
            let Some((key, value)) = line.split_once(':') else { return wrong("neither") };
            let key_is_right = key.chars().next().is_some_and(char::is_lowercase)
                && !key.chars().any(|letter| letter.is_whitespace() || letter.is_uppercase());
            if !key_is_right || !value.starts_with([' ', '\t']) {
                return wrong("configuration");
            }
            file.config.push((key.to_owned(), value.trim().to_owned()));
        }
    }
    for result in &file.results {
        if let Some((_, unit)) = result.values.iter().find(|(_, unit)| !file.units.contains_key(unit)) {
            return Err(format!("nothing says which way {unit} is better"));
        }
    }
    Ok(file)
}

/// Whether JSON text follows a schema.
pub fn conforms(schema: &str, text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&schema, &value, "$")
}

/// The part of draft-07 that the schemas in `tests/schemas` use; any other word in one is an error.
fn check(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Some(rules) = schema.as_object() else { return Err(format!("{place}: a schema is an object")) };
    for (word, rule) in rules {
        match word.as_str() {
            "$comment" => {}
            "type" => {
                let right = match rule.as_str() {
                    Some("object") => value.is_object(),
                    Some("array") => value.is_array(),
                    Some("string") => value.is_string(),
                    Some("number") => value.is_number(),
                    other => return Err(format!("{place}: unknown type {other:?}")),
                };
                if !right {
                    return Err(format!("{place}: {value} is no {rule}"));
                }
            }
            "minItems" => {
                if value.as_array().map_or(0, Vec::len) < rule.as_u64().unwrap_or_default() as usize {
                    return Err(format!("{place}: too few items"));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{place}[{index}]"))?;
                }
            }
            "patternProperties" => {
                let Some((pattern, inner)) = rule.as_object().and_then(|rule| rule.iter().next()) else {
                    return Err("patternProperties".into());
                };
                assert_eq!(pattern, ".+");
                for (key, item) in value.as_object().into_iter().flatten() {
                    if key.is_empty() {
                        return Err(format!("{place}: an empty name"));
                    }
                    check(inner, item, &format!("{place}.{key}"))?;
                }
            }
            "properties" => {
                for (key, inner) in rule.as_object().into_iter().flatten() {
                    if let Some(item) = value.get(key) {
                        check(inner, item, &format!("{place}.{key}"))?;
                    }
                }
            }
            "required" => {
                for key in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if value.get(key).is_none() {
                        return Err(format!("{place}: no {key}"));
                    }
                }
            }
            "additionalProperties" => {
                let known = rules.get("properties").and_then(Value::as_object);
                if let Some(key) = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key)
                    .find(|key| !known.is_some_and(|known| known.contains_key(*key)))
                {
                    return Err(format!("{place}: {key} is not known"));
                }
            }
            other => return Err(format!("the schema's {other:?} is not understood here")),
        }
    }
    Ok(())
}

#[test]
fn the_readers_refuse_what_is_wrong() {
    assert!(gobench("BenchmarkX/driver=raw-2\t5\t10 ns/op\n").unwrap_err().contains("which way"));
    assert!(gobench("Unit ns/op better=lower\nBenchmarkX/driver=raw-2\t5\t10 ns/op\n").is_ok());
    for wrong in
        ["BenchmarkX-2 5 10", "BenchmarkX 5 10 ns/op", "BenchmarkX-2 5 NaN ns/op", "Bad: x", "key:value", "BenchmarkX/a-2 5 1 ns/op"]
    {
        assert!(gobench(wrong).is_err(), "{wrong}");
    }
    let schema = include_str!("../../../../tests/schemas/bmf.json");
    assert!(conforms(schema, r#"{"a": {"b": {"value": 1, "lower_value": 0.5}}}"#).is_ok());
    for wrong in [
        r#"{"a": {"b": {"lower_value": 1}}}"#,
        r#"{"a": {"b": {"value": null}}}"#,
        r#"{"a": {"b": 1}}"#,
        "[]",
        r#"{"a": {"b": {"value": 1, "x": 1}}}"#,
    ] {
        assert!(conforms(schema, wrong).is_err(), "{wrong}");
    }
    assert!(conforms(include_str!("../../../../tests/schemas/github-action-benchmark.json"), "[]").is_err());
}
