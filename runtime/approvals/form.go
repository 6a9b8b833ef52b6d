package approvals

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
)

// A form is good only in the browser that asked for it: it carries a MAC over the link's token and a random value that the
// browser has in a cookie. Another site, or another approver, who knows the link can make a browser send the form, but not
// this field.

// cookieName names the cookie with the browser's random value.
const cookieName = "flowfabric_approvals"

const nonceBytes = 18

// nonce returns the random value of the browser, and gives it one when it has none.
func (h *Handler) nonce(w http.ResponseWriter, r *http.Request) string {
	if nonce, ok := readNonce(r); ok {
		return nonce
	}
	random := make([]byte, nonceBytes)
	_, _ = rand.Read(random) // never fails: it ends the process instead
	nonce := base64.RawURLEncoding.EncodeToString(random)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: nonce, Path: "/", HttpOnly: true, Secure: h.config.https || r.TLS != nil,
		// Lax, so that a link in a mail finds the cookie of before, and a form on another site does not.
		SameSite: http.SameSiteLaxMode,
	})
	return nonce
}

func readNonce(r *http.Request) (string, bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil || base64.RawURLEncoding.DecodedLen(len(cookie.Value)) != nonceBytes {
		return "", false
	}
	return cookie.Value, true
}

// seal is the field that a form carries.
func (h *Handler) seal(nonce, token string) string {
	mac := hmac.New(sha256.New, h.config.key)
	mac.Write([]byte(nonce + "\x00" + token))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ownForm tells whether the request comes from a form that this handler gave to this browser.
func (h *Handler) ownForm(r *http.Request, token string) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	nonce, ok := readNonce(r)
	return ok && hmac.Equal([]byte(r.PostFormValue("form")), []byte(h.seal(nonce, token)))
}
