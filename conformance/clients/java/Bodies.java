import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Random;

/** Bodies: what they are made of. */
final class Bodies {
    /** At both sides of every boundary. */
    static final int[] SIZES = {0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20, 5 << 20};

    private Bodies() {}

    /** A body of so many bytes, the same for each length and without a period. */
    static byte[] content(int length) {
        byte[] body = new byte[length];
        new Random(length).nextBytes(body);
        return body;
    }

    static byte[] filled(int length, char with) {
        byte[] body = new byte[length];
        Arrays.fill(body, (byte) with);
        return body;
    }

    static boolean same(byte[] one, byte[] other) {
        return one.length == other.length && Arrays.equals(hash(one), hash(other));
    }

    private static byte[] hash(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
