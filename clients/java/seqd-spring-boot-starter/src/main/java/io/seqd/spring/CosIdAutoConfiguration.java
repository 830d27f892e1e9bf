package io.seqd.spring;

import io.seqd.client.IdGenerator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** CosId's {@code IdGenerator}, if its jar is present and the application has no other. */
@AutoConfiguration(after = SeqdAutoConfiguration.class, afterName = {
    "me.ahoo.cosid.spring.boot.starter.CosIdAutoConfiguration",
    "me.ahoo.cosid.spring.boot.starter.segment.CosIdSegmentAutoConfiguration",
    "me.ahoo.cosid.spring.boot.starter.snowflake.CosIdSnowflakeAutoConfiguration"
})
@ConditionalOnClass(me.ahoo.cosid.IdGenerator.class)
@ConditionalOnBean(IdGenerator.class)
public class CosIdAutoConfiguration {
    /** The generator under CosId's interface. */
    @Bean
    @ConditionalOnMissingBean(me.ahoo.cosid.IdGenerator.class)
    public me.ahoo.cosid.IdGenerator seqdCosIdGenerator(IdGenerator generator) {
        return generator::id;
    }
}
