package server

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

const homeStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}` +
	`code{background:#eee;padding:0 .3em}a{color:#0645ad}`

// homePage has links relative to the page, so that they lead to the server under any path.
var homePage = template.Must(template.New("home").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>FlowFabric</title><style>{{.Style}}</style></head><body>
<h1>FlowFabric</h1>
<p>Namespace <code>{{.Namespace}}</code>{{with .Engine}}, engine {{.}}{{end}}{{with .Version}}, version {{.}}{{end}}
{{- if .ReadOnly}}, read-only{{end}}.</p>
<ul>
{{- if .OIDC}}
<li><a href="auth/login">Log in</a></li>{{end}}
<li><a href="api/v1/runs">Runs</a>, <a href="api/v1/flows">flows</a>, <a href="api/v1/waits">waits</a>,
<a href="api/v1/lanes">lanes</a>, <a href="api/v1/inspection">findings</a></li>
<li><a href="openapi.json">OpenAPI document</a></li>
<li><a href="healthz">Health</a>, <a href="readyz">readiness</a>{{if .Metrics}},
<a href="metrics">metrics</a>{{end}}</li>
</ul></body></html>
`))

// home is a page for those who open the address of a server in a browser.
func (s *Server) home(w http.ResponseWriter, _ *http.Request) {
	sum := sha256.Sum256([]byte(homeStyle))
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "+
		"style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	_ = homePage.Execute(w, map[string]any{
		"Style": template.CSS(homeStyle), "Namespace": s.config.Namespace, "Engine": s.config.EngineName,
		"Version": s.config.Version, "ReadOnly": s.config.ReadOnly, "OIDC": s.oidc != nil,
		"Metrics": s.config.Metrics != nil,
	})
}
