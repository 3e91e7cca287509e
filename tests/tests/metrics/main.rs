//! `metrics-port`: values, formats, who may read, hostile clients, `/readyz`.

mod access;
mod dashboard;
mod hostile;
mod http;
mod ready;
mod state;
mod values;
