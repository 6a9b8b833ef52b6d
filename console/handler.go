// Package console is the web console of FlowFabric: pages that show runs and why they wait, answer waits that need a
// person, and operate flows, schedules, lanes, limits, budgets and workers. The pages call the HTTP API of package
// server, with the rights of the user; this package serves their files.
//
// Package server serves the console at its root. A program that serves the API elsewhere mounts Handler itself.
package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
)

//go:embed dist
var files embed.FS

// Config configures the handler. The zero value is for a console next to the API, as package server serves it.
type Config struct {
	// API is the URL of the API, absolute or relative to where the handler is mounted. Defaults to "api/v1".
	API string
	// Login is the URL of a page that logs people in, relative or absolute like API: "auth/login" of a server with
	// OpenID Connect. Defaults to none: people enter a token.
	Login string
}

// policy allows the pages to load their own files, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// sections are the first parts of the paths of pages.
var sections = []string{
	"", "health", "runs", "inbox", "answer", "flows", "schedules", "lanes", "limits", "budgets", "workers",
	"keepers", "bulk", "audit", "settings",
}

type asset struct {
	body        []byte
	contentType string
	etag        string
}

type handler struct {
	page   string
	assets map[string]asset
}

// Handler returns the handler of the console. It needs to know nothing of the prefix at which it is mounted or of
// proxies in front of it: all its links are relative.
func Handler(config Config) http.Handler {
	if config.API == "" {
		config.API = "api/v1"
	}
	h := &handler{assets: map[string]asset{}}
	dist, _ := fs.Sub(files, "dist") // the name is one that fs.Sub takes
	for name, contentType := range map[string]string{
		"app.js": "text/javascript; charset=utf-8", "stream.js": "text/javascript; charset=utf-8",
		"app.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		body, err := fs.ReadFile(dist, name)
		if err != nil {
			continue // a build without the pages has no assets
		}
		sum := sha256.Sum256(body)
		h.assets["/assets/"+name] = asset{body, contentType, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	page, _ := fs.ReadFile(dist, "index.html")
	h.page = strings.ReplaceAll(string(page), "{{api}}", html.EscapeString(config.API))
	h.page = strings.ReplaceAll(h.page, "{{login}}", html.EscapeString(config.Login))
	return h
}

// Patterns are the paths of pages and assets, as patterns of http.ServeMux without a method. The handler answers others
// with status 404: with a page for browsers that ask for one.
func Patterns() []string {
	patterns := []string{"/{$}", "/assets/"}
	for _, section := range sections[1:] {
		patterns = append(patterns, "/"+section, "/"+section+"/")
	}
	return patterns
}

// has reports whether a request is for a page or an asset.
func has(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return first == "assets" || slices.Contains(sections, first)
}

// AsksForPage reports whether a browser has sent the request to show a page: by GET or HEAD, for text/html.
func AsksForPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if !has(r) {
		if status = http.StatusNotFound; !AsksForPage(r) {
			http.NotFound(w, r)
			return
		}
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		h.serveAsset(w, r)
		return
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(strings.ReplaceAll(h.page, "{{base}}", base(r.URL.EscapedPath()))))
	}
}

func (h *handler) serveAsset(w http.ResponseWriter, r *http.Request) {
	found, ok := h.assets[path.Clean(r.URL.Path)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Etag", found.etag)
	if r.Header.Get("If-None-Match") == found.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", found.contentType)
	if r.Method == http.MethodGet {
		_, _ = w.Write(found.body)
	}
}

// base returns the way from a page to the root of the console, relative to the page. A slash within a name is encoded,
// so it does not count.
func base(escapedPath string) string {
	depth := strings.Count(strings.TrimPrefix(escapedPath, "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}
