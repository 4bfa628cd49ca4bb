//! The alarms of the template, each evaluated as it is written there: by which series it fires, and by which it does not.
//!
//! # Layout
//! - [`definition`]: an alarm as the template defines it.
//! - [`series`]: what CloudWatch keeps of metrics; [`emf`]: our functions' lines made into it.
//! - [`statistic`], [`math`], [`insights`]: from series to the data points that an alarm sees.
//! - [`evaluate`]: from data points to a state, missing data included; [`composite`]: from states to who is told.
//! - [`cases`]: the cases of `cases.yaml`, and what must come of them; [`mutants`]: that the cases would see a change.
//! - [`runs`]: the functions at work, minute by minute; [`deeds`]: what happens to them meanwhile.
//! - [`lasting`]: whole runs, for as long as an alarm stands.
//! - [`text`]: what each alarm says, and where; [`emitted`]: that the metrics are there which alarms name.
//!
//! What CloudWatch leaves open is tried both ways: how much further back than its periods it looks, and whether `FILL`
//! fills a metric of which nothing is known.

mod cases;
mod composite;
mod deeds;
mod definition;
mod emf;
mod emitted;
mod evaluate;
mod insights;
mod lasting;
mod math;
mod mutants;
mod runs;
mod series;
mod statistic;
mod text;

pub(crate) use definition::watched_metrics;
pub(crate) use math::tokens;
pub(crate) use series::AlarmMetric;
pub(crate) use text::kebab;
