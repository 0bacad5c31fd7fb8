//! Records of `rcb cache`: they say whether a cache forgot, which is no figure. What failed is named.

use std::slice;

use super::super::sheet::Sheet;
use super::Head;
use crate::record::scenarios::ScenariosRecord;
use crate::scenarios::Verdict;

pub(super) fn sheet(path: &str, record: &ScenariosRecord) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: "rcb cache",
        complete: record.complete,
        environment: &record.environment,
        targets: slice::from_ref(&record.target),
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    for row in &record.rows {
        if let Verdict::Failed { reason } = &row.played.verdict {
            sheet.leave_out(format!("{}/{}", row.scenario, row.driver), format!("failed: {reason}"));
        }
    }
    sheet
}
