//! Services as comma-separated values: a row for each service, client, model and burst.

use std::io::Write;

use super::report::{ClientReport, Doing, ServiceReport, WorkReport};
use crate::failure::Failure;

const HEADING: &str = "time_s,service,service_pid,kind,connection,pid,uid,client,object,model,\
priority,age_s,queue_depth,executions,failures,missed_deadlines,window_s,rate_per_s,p50_us,p90_us,\
p99_us,p999_us,max_us,memory_bytes,descriptors,refused";

pub(super) fn print(
    reports: &[ServiceReport],
    with_heading: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if with_heading {
        writeln!(out, "{HEADING}")?;
    }
    for report in reports {
        let ServiceReport { time_s, service, pid, age_s, .. } = report;
        let begin = format!("{time_s},{},{pid}", cell(service));
        let resident = report.resident_bytes.map_or_else(String::new, |bytes| bytes.to_string());
        let descriptors = used(&report.resources, "file_descriptors");
        let refused: u64 = report.refused.values().sum();
        let doing = doing(&report.doing);
        writeln!(
            out,
            "{begin},service,,,,,,,,{age_s:.3},,{doing},{resident},{descriptors},{refused}"
        )?;
        for client in &report.clients {
            print_client(&begin, client, out)?;
        }
    }
    Ok(())
}

fn print_client(begin: &str, client: &ClientReport, out: &mut dyn Write) -> Result<(), Failure> {
    let ClientReport { connection, pid, uid, client: name, age_s, .. } = client;
    let who = format!("{connection},{pid},{uid},{}", cell(name));
    let memory = used(&client.resources, "bytes_of_memory");
    let descriptors = used(&client.resources, "file_descriptors");
    let refused: u64 = client.refused.values().sum();
    let (all, waiting) = (doing(&client.doing), client.waiting_calls);
    writeln!(
        out,
        "{begin},client,{who},,,,{age_s:.3},{waiting},{all},{memory},{descriptors},{refused}"
    )?;
    for work in &client.works {
        let WorkReport { kind, object, model, priority, age_s, queue_depth, doing: its, .. } = work;
        let (model, priority, its) = (cell(model), priority.unwrap_or(""), doing(its));
        let memory = work.memory_bytes.map_or_else(String::new, |bytes| bytes.to_string());
        let its = format!("{its},{memory},,");
        writeln!(
            out,
            "{begin},{kind},{who},{object},{model},{priority},{age_s:.3},{queue_depth},{its}"
        )?;
    }
    Ok(())
}

fn used(
    resources: &std::collections::BTreeMap<String, super::report::ResourceReport>,
    name: &str,
) -> String {
    resources.get(name).map_or_else(String::new, |it| it.used.to_string())
}

fn doing(doing: &Doing) -> String {
    let Doing { executions, failures, missed_deadlines, window_s, rate_per_s, .. } = doing;
    let Doing { p50_us, p90_us, p99_us, p999_us, max_us, .. } = doing;
    format!(
        "{executions},{failures},{missed_deadlines},{window_s:.3},{rate_per_s},{p50_us},{p90_us},\
         {p99_us},{p999_us},{max_us}"
    )
}

/// A text as one cell. What a client calls itself is no formula of a spreadsheet.
fn cell(text: &str) -> String {
    let text = text.replace('"', "\"\"");
    let begins_formula = text.starts_with(['=', '+', '-', '@']);
    if begins_formula { format!("\"'{text}\"") } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_cells() {
        assert_eq!(cell(r#"a "b", c"#), r#""a ""b"", c""#);
        assert_eq!(cell("=1+1"), r#""'=1+1""#);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let its = Doing {
            executions: 1,
            failures: 0,
            missed_deadlines: 0,
            window_s: 1.0,
            rate_per_s: 1.0,
            p50_us: 1.0,
            p90_us: 1.0,
            p99_us: 1.0,
            p999_us: 1.0,
            max_us: 1.0,
        };
        let columns = HEADING.split(',').count();
        assert_eq!(doing(&its).split(',').count() + 16, columns);
    }
}
