// Command http-workers serves a flow whose activities are run by programs without Go: worker.py and worker.ts, neither
// of which has dependencies. Start it, then one of them, and a run:
//
//	go run .
//	FLOWFABRIC_SERVER=http://localhost:8080 python3 worker.py
//	curl localhost:8080/api/v1/flows/report/runs -H 'Content-Type: application/json' \
//	  -d '{"id":"one","input":{"source":"news"}}'
//	curl localhost:8080/api/v1/runs/report/one/waits
//	curl localhost:8080/api/v1/runs/report/one/signals -H 'Content-Type: application/json' \
//	  -d '{"node":"approve","step":"","name":"approve","payload":{"by":"ann"}}'
//	curl localhost:8080/api/v1/runs/report/one/result?wait=30s
package main
