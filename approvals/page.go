package approvals

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// policy allows nothing but the page's own style and form.
var policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		base64.StdEncoding.EncodeToString(sum[:]))
}()

// page is the data of a page.
type page struct {
	Title, Heading string
	// Text is one paragraph each.
	Text []string
	// Fault describes the faults of the submitted form.
	Fault string
	// Form is nil when there is nothing to send.
	Form *form
}

// form is the form of a page.
type form struct {
	Seal    string
	Choices []choiceButton
	// AskWho is set when the form has a field for the name; otherwise Who is known.
	AskWho       bool
	Who, Comment string
	MaxWho       int
	MaxComment   int
}

// choiceButton is the button of a choice. Its meaning is "yes", "no" or "".
type choiceButton struct {
	Choice
	Meaning string
}

// write sends a page with headers that forbid caching and referrers.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Title = h.config.Title
	var body bytes.Buffer
	err := pageTemplate.Execute(&body, struct {
		page
		Style template.CSS
	}{p, template.CSS(pageStyle)})
	if err != nil {
		h.config.Logger.ErrorContext(r.Context(), "flowfabric: the approvals handler could not render the page",
			"event", "approval.page_failed", "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Robots-Tag", "noindex, nofollow")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // a visitor who has gone needs no page
	}
}
