package approvals

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// A form is valid only in the browser that requested it, and for the visitor whom Identity named then: it carries a MAC
// over the link's token, that name, and a random value that the browser has in a cookie. Another site, or another
// approver, who knows the link can make a browser send the form, but not this field.

// The names of the cookie with the browser's random value. One that begins with __Host- is taken by a browser from this
// very host by https only, so no neighbour in its domain can plant one.
const (
	cookieName       = "flowfabric_approvals"
	secureCookieName = "__Host-" + cookieName
)

// isSecure reports whether the visitor uses https.
func (h *Handler) isSecure(r *http.Request) bool { return h.config.HTTPS || r.TLS != nil }

func (h *Handler) cookieName(r *http.Request) string {
	if h.isSecure(r) {
		return secureCookieName
	}
	return cookieName
}

const nonceBytes = 18

// nonce returns the random value of the browser, and gives it one when it has none.
func (h *Handler) nonce(w http.ResponseWriter, r *http.Request) string {
	if nonce, ok := h.readNonce(r); ok {
		return nonce
	}
	random := make([]byte, nonceBytes)
	_, _ = rand.Read(random) // never fails: it ends the process instead
	nonce := base64.RawURLEncoding.EncodeToString(random)
	http.SetCookie(w, &http.Cookie{
		Name: h.cookieName(r), Value: nonce, Path: "/", HttpOnly: true, Secure: h.isSecure(r),
		// Lax, so that a link in a mail finds the cookie of before, and a form on another site does not.
		SameSite: http.SameSiteLaxMode,
	})
	return nonce
}

func (h *Handler) readNonce(r *http.Request) (string, bool) {
	cookie, err := r.Cookie(h.cookieName(r))
	if err != nil || base64.RawURLEncoding.DecodedLen(len(cookie.Value)) != nonceBytes {
		return "", false
	}
	return cookie.Value, true
}

// seal is the field that a form carries. who is the visitor's name by Identity, "" without it.
func (h *Handler) seal(nonce, token, who string) string {
	mac := hmac.New(sha256.New, h.config.Key)
	mac.Write([]byte(nonce + "\x00" + token + "\x00" + who))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ownForm reports whether the request comes from a form that this handler gave to this browser and visitor.
func (h *Handler) ownForm(r *http.Request, token, who string) bool {
	if !sameOrigin(r) {
		return false
	}
	nonce, ok := h.readNonce(r)
	return ok && hmac.Equal([]byte(r.PostFormValue("form")), []byte(h.seal(nonce, token, who)))
}

// sameOrigin reports whether a form comes from a page of this host, as far as the browser reports it. Sec-Fetch-Site
// states it; without it, as with plain http and old browsers, Origin has the host of the page. Origin is "null" if the
// page forbids referrers, as the pages of this handler do, and absent outside browsers: then the field of the form
// decides alone.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" || origin == "null" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && strings.EqualFold(from.Host, r.Host)
}
