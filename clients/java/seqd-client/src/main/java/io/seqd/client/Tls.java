package io.seqd.client;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Reads the PEM files that {@code seqd tls init} writes. */
final class Tls {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");

    private Tls() {}

    /** The CAs of the system are trusted without {@code ca}. The certificate and its key are optional. */
    static SSLContext context(Path ca, Path certificate, Path key) {
        if ((certificate == null) != (key == null)) {
            throw SeqdException.invalid("a client certificate needs its key, and a key its certificate: give both");
        }
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(certificate == null ? null : keys(certificate, key).getKeyManagers(),
                    ca == null ? null : trust(ca).getTrustManagers(), null);
            return context;
        } catch (NoSuchFileException missing) {
            throw SeqdException.invalid("the TLS files cannot be used: there is no file " + missing.getMessage());
        } catch (IOException | GeneralSecurityException | IllegalArgumentException error) {
            throw SeqdException.invalid("the TLS files cannot be used: " + error.getMessage());
        }
    }

    private static TrustManagerFactory trust(Path ca) throws IOException, GeneralSecurityException {
        KeyStore store = emptyStore();
        int count = 0;
        for (Certificate certificate : certificates(ca)) {
            store.setCertificateEntry("ca" + count++, certificate);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory;
    }

    private static KeyManagerFactory keys(Path certificate, Path key) throws IOException, GeneralSecurityException {
        KeyStore store = emptyStore();
        Certificate[] chain = certificates(certificate).toArray(new Certificate[0]);
        char[] noPassword = new char[0];
        store.setKeyEntry("client", privateKey(key, chain[0].getPublicKey().getAlgorithm()), noPassword, chain);
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, noPassword);
        return factory;
    }

    private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Collection<? extends Certificate> certificates(Path file)
            throws IOException, GeneralSecurityException {
        byte[] bytes = Files.readAllBytes(file);
        Collection<? extends Certificate> found = CertificateFactory.getInstance("X.509")
                .generateCertificates(new ByteArrayInputStream(bytes));
        if (found.isEmpty()) {
            throw new IllegalArgumentException(file + " has no certificate");
        }
        return found;
    }

    private static PrivateKey privateKey(Path file, String algorithm) throws IOException, GeneralSecurityException {
        Matcher found = KEY.matcher(Files.readString(file, StandardCharsets.US_ASCII));
        if (!found.find()) {
            throw new IllegalArgumentException(file + " has no PKCS#8 key (BEGIN PRIVATE KEY); convert it: openssl "
                    + "pkcs8 -topk8 -nocrypt -in " + file.getFileName());
        }
        byte[] der = Base64.getMimeDecoder().decode(found.group(1));
        return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(der));
    }
}
