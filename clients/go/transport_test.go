package seqd

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lateNode is a node that uses up the wait of each request. It counts them.
func lateNode(t *testing.T, wait time.Duration) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != OpLive.path {
			requests.Add(1)
			time.Sleep(wait)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestEachEndpointHasTheWholeWaitThatTheNodeMayUseUp(t *testing.T) {
	// Endpoints that shared the wait would each have less time than it takes.
	const waitMS = 3000
	// The system accepts its connections, but no request receives a response.
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer hung.Close()
	silent := "http://" + hung.Addr().String()
	first, _ := lateNode(t, waitMS*time.Millisecond)
	second, asked := lateNode(t, waitMS*time.Millisecond)
	for _, endpoints := range []string{first + "," + second + "," + second, silent + "," + silent + "," + first} {
		client, err := New(endpoints, WithTimeout(4*time.Second))
		must(t, err)
		must(t, client.Call(context.Background(), OpLock, []any{"a"}, Fields{"wait_ms": int64(waitMS)}, &struct{}{}))
	}
	if asked.Load() != 0 {
		t.Error("the second endpoint was asked too")
	}
}

func TestAWaitOfAnyIntegerTypeIsAdded(t *testing.T) {
	address, _ := lateNode(t, 3*time.Second)
	client, err := New(address, WithTimeout(2*time.Second))
	must(t, err)
	type ms uint16
	var group sync.WaitGroup
	for _, wait := range []any{3000, int16(3000), uint64(3000), ms(3000)} {
		group.Add(1)
		go func() {
			defer group.Done()
			err := client.Call(context.Background(), OpLock, []any{"a"}, Fields{"wait_ms": wait}, &struct{}{})
			if err != nil {
				t.Errorf("%T: %v", wait, err)
			}
		}()
	}
	group.Wait()
}

func TestACertificateImpliesHTTPSWithTheCAsOfTheSystem(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	cert, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	for file, block := range map[string]pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(&block), 0o600))
	}
	check := func(opts ...Option) {
		t.Helper()
		client, err := New("n1", opts...)
		must(t, err)
		if got := client.transport.endpoints.list[0].scheme; got != "https" {
			t.Errorf("the scheme is %s", got)
		}
		// Go reads the CAs of the system if there are no others.
		if config := client.transport.http.Transport.(*http.Transport).TLSClientConfig; config.RootCAs != nil {
			t.Error("there are other CAs")
		}
	}
	t.Setenv("SEQD_CACERT", "")
	check(WithCertificate(cert, key))
	t.Setenv("SEQD_CERT", cert)
	t.Setenv("SEQD_KEY", key)
	check()
}
