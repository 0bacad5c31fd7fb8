//! A client's figures over its versions: the table, and the chart.

use comfy_table::{CellAlignment, Table, presets};
use plotters::prelude::*;

use super::table::lines as text_of;
use crate::record::history::Line;

/// What must stand beside every history.
pub const NOTE: &str = "Values are medians of sessions, with the smallest and the largest. They carry the noise of their days: a difference here \
                        is a hint, not a verdict; rcb compare decides.";

/// A value with its unit's usual digits.
fn digits(value: f64) -> String {
    let digits = if value >= 1000.0 || value == 0.0 { 0 } else { 2 };
    format!("{value:.digits$}")
}

/// Every version of every line, and how it stands beside the version before.
#[must_use]
pub fn table(history: &[Line]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "cell",
        "machine",
        "server",
        "measure",
        "version",
        "sessions",
        "value",
        "lowest",
        "highest",
        "beside the one before",
        "newest",
    ]);
    for index in 5..10 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in history {
        let mut before: Option<f64> = None;
        for point in &line.points {
            let change = before.filter(|before| *before > 0.0).map(|before| format!("{:+.1}%", (point.value / before - 1.0) * 100.0));
            table.add_row([
                line.name.clone(),
                line.machine.id.clone(),
                line.server.clone(),
                format!("{} ({})", line.measure.name(), line.measure.unit()),
                point.version.clone(),
                point.sessions.to_string(),
                digits(point.value),
                digits(point.lowest),
                digits(point.highest),
                change.unwrap_or_else(|| "–".to_owned()),
                point.newest.clone(),
            ]);
            before = Some(point.value);
        }
    }
    format!("{}\n{NOTE}", text_of(&table))
}

/// Lines that one chart takes.
pub const MOST_PANELS: usize = 40;

const WIDTH: u32 = 900;
const PANEL: u32 = 240;

/// The chart as SVG: a panel for each line, each from 0, since lines of different cells, machines or servers are not comparable.
///
/// # Errors
/// A chart that can't be drawn, in words; more than [`MOST_PANELS`] lines, or none.
pub fn chart(client: &str, history: &[Line]) -> Result<String, String> {
    if history.is_empty() || history.len() > MOST_PANELS {
        return Err(format!("a chart has 1 to {MOST_PANELS} panels, and here are {}; choose cells with --name", history.len()));
    }
    let mut svg = String::new();
    draw(&mut svg, client, history).map_err(|error| format!("the chart can't be drawn: {error}"))?;
    Ok(svg)
}

fn draw(svg: &mut String, client: &str, history: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let height = PANEL * u32::try_from(history.len())? + 40;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(&format!("{client} over its versions"), ("sans-serif", 22))?;
    for (area, line) in root.split_evenly((history.len(), 1)).iter().zip(history) {
        panel(area, line)?;
    }
    root.present()?;
    Ok(())
}

fn panel(area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, line: &Line) -> Result<(), Box<dyn std::error::Error>> {
    let top = line.points.iter().map(|point| point.highest).fold(0.0, f64::max) * 1.1;
    let title = format!("{}, {} ({})", line.name, line.measure.name(), line.measure.unit());
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(title, ("sans-serif", 14))
        .x_label_area_size(36)
        .y_label_area_size(84)
        .build_cartesian_2d((0..line.points.len() - 1).into_segmented(), 0.0..top.max(f64::MIN_POSITIVE))?;
    let version = |place: &SegmentValue<usize>| match place {
        SegmentValue::CenterOf(place) => line.points.get(*place).map_or_else(String::new, |point| point.version.clone()),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(line.points.len())
        .x_label_formatter(&version)
        .x_desc(format!("machine {}, {}", line.machine.id, line.server))
        .y_label_formatter(&|value| digits(*value))
        .draw()?;
    let places = || line.points.iter().enumerate().map(|(place, point)| (SegmentValue::CenterOf(place), point));
    chart.draw_series(LineSeries::new(places().map(|(place, point)| (place, point.value)), BLUE.stroke_width(2)))?;
    chart.draw_series(
        places().map(|(place, point)| PathElement::new(vec![(place.clone(), point.lowest), (place, point.highest)], BLACK.mix(0.5))),
    )?;
    chart.draw_series(places().map(|(place, point)| Circle::new((place, point.value), 4, BLUE.filled())))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Machine;
    use crate::record::export::Measure;
    use crate::record::history::Point;

    fn history() -> Vec<Line> {
        let point = |version: &str, value: f64| Point {
            version: version.into(),
            sessions: 3,
            value,
            lowest: value * 0.9,
            highest: value * 1.05,
            newest: "2026-12-01T00:00:00Z".into(),
        };
        vec![Line {
            name: "get-64B/redis-rs/callers=64".into(),
            machine: Machine { id: "b476af2d".into(), text: "a machine".into() },
            server: "redis 7.0.15, standalone, process".into(),
            measure: Measure::Rate,
            points: vec![point("0.32.7", 100_000.0), point("1.8.1", 110_000.0)],
        }]
    }

    #[test]
    fn the_table_says_that_it_is_no_verdict() {
        insta::assert_snapshot!(table(&history()));
    }

    #[test]
    fn the_chart_names_every_version_and_is_closed_xml() {
        let svg = chart("redis", &history()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["0.32.7", "1.8.1", "machine b476af2d, redis 7.0.15, standalone, process", "rate (ops/s)", "<polyline"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        let mut odd = history();
        odd[0].points.truncate(1);
        odd[0].points[0] = Point { value: 0.0, lowest: 0.0, highest: 0.0, ..odd[0].points[0].clone() };
        assert!(chart("redis", &odd).unwrap().contains("0.32.7"), "one version, and none of what is counted");
        odd[0].points[0].highest = 1e18;
        assert!(chart("redis", &odd).is_ok());
        assert!(chart("redis", &[]).is_err());
        let many: Vec<Line> = std::iter::repeat_with(|| history().remove(0)).take(MOST_PANELS + 1).collect();
        assert!(chart("redis", &many).unwrap_err().contains("--name"));
    }
}
