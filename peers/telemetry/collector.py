"""A collector of OpenTelemetry on the official definitions of its protocol.

Prints one line of JSON with its port, and then one for each export request: the decoded spans or metrics.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

printing = Lock()


def show(value):
    with printing:
        print(json.dumps(value), flush=True)


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def span(span):
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "status": span.status.code,
        "ns": span.end_time_unix_nano - span.start_time_unix_nano,
        "attributes": attributes(span.attributes),
    }


def metric(metric):
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    points = []
    for point in data.data_points:
        shown = {"attributes": attributes(point.attributes), "ns": point.time_unix_nano - point.start_time_unix_nano}
        if kind == "histogram":
            shown |= {
                "count": point.count,
                "sum": point.sum,
                "buckets": list(point.bucket_counts),
                "bounds": list(point.explicit_bounds),
            }
        else:
            shown["value"] = point.as_int
        points.append(shown)
    return {
        "name": metric.name,
        "unit": metric.unit,
        "kind": kind,
        "monotonic": kind == "sum" and data.is_monotonic,
        "cumulative": kind != "gauge" and data.aggregation_temporality == 2,
        "points": points,
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] != "application/x-protobuf":
            return self.answer(415)
        if self.path == "/v1/traces":
            resources = ExportTraceServiceRequest.FromString(body).resource_spans
            show({"resource": attributes(resources[0].resource.attributes),
                  "spans": [span(one) for part in resources for scope in part.scope_spans for one in scope.spans]})
        elif self.path == "/v1/metrics":
            resources = ExportMetricsServiceRequest.FromString(body).resource_metrics
            show({"resource": attributes(resources[0].resource.attributes),
                  "metrics": [metric(one) for part in resources for scope in part.scope_metrics for one in scope.metrics]})
        else:
            return self.answer(404)
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
show({"port": server.server_port})
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
